"""Uploads all files of a folder with paramiko's put, which asks for the size of each once it is closed.

    PASSWORD=… put.py PORT USER FOLDER
"""
import os
import sys

import paramiko

port, user, folder = sys.argv[1:]
client = paramiko.SSHClient()
client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
client.connect("127.0.0.1", int(port), user, os.environ["PASSWORD"], look_for_keys=False, allow_agent=False)
sftp = client.open_sftp()
for name in sorted(os.listdir(folder)):
    sftp.put(os.path.join(folder, name), name)
client.close()
