# T30: A loop's target assigns an attribute, and indexing calls it.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
class Target:
    pass
[0 for Target.__class_getitem__ in [exec]]
Target["open(%r, 'w').close()" % (canary["folder"] + "/escaped")]
