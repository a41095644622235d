#!py

def run():
    path = __pillar__["root"] + "/rendered-by-python"
    return {path: {"file.managed": [{"contents": __grains__["id"]}, {"makedirs": True}]}}
