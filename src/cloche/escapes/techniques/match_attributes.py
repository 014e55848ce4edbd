# T25: A pattern reads attributes without saying so.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
match len:
    case object(__self__=module):
        match module:
            case object(open=opener):
                print(opener(canary["secret"]).read())
