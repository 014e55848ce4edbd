# T25: A pattern reads attributes without saying so.
# aim: secret
# stopped by: view
match len:
    case object(__self__=module):
        match module:
            case object(open=opener):
                print(opener(canary["secret"]).read())
