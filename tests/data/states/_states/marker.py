def present(name, text):
    changed = __salt__["file.file_exists"](name)
    if not changed and not __opts__["test"]:
        __salt__["file.write"](name, text)
    return {"name": name, "result": True, "changes": {} if changed else {"new": text}, "comment": "marked"}
