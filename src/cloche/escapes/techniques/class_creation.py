# T32: Making a class runs code in hooks.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
class Hook:
    def __set_name__(self, owner, name):
        open(canary["folder"] + "/escaped", "w").close()
class Base:
    def __init_subclass__(cls, **options):
        open(canary["folder"] + "/escaped-too", "w").close()
class Derived(Base):
    hook = Hook()
