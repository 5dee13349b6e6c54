"""The toolkit of the CNTK book on graphc: the commands of a configuration file.

`configuration.py` reads a whole file and plans every command of it: all blocks are read, networks
built, files looked for, names of nodes checked. Only then the first command runs. What a command
does is graphc's own: each action turns its block into a call that Python has too.

    action.py, actions.py      what an action is, and all of them
    networks.py, readers.py    networks, model files and readers out of their blocks
    top.py, log.py             keys of the top level, the log
"""
