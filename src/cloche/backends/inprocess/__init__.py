"""Guard-rails without a wall: checked code in a worker process, or in this one."""
