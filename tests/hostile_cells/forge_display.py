# A picture that is none.
say(b'{"jsonrpc":"2.0","method":"display","params":{"data":{"image/png":"not base64!"}}}\n')
