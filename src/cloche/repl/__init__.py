"""The workbench: an environment in which an agent looks at texts of any size."""
