def loud(text):
    return text.upper()
