"""What the client does that openapi-python-client makes: a directory, a file in a folder of it, its events."""

import io
import os

from berth_client import AuthenticatedClient
from berth_client.api.directories import create_directory, update_directory
from berth_client.api.events import list_events
from berth_client.api.files import put_file
from berth_client.models import BasicFields, CreateDirectory, CreateDirectoryBody, UpdateDirectoryBody
from berth_client.types import File

client = AuthenticatedClient(base_url=os.environ["API"], token=os.environ["KEY"], verify_ssl=os.environ["CA"])
made = create_directory.sync(client=client, body=CreateDirectoryBody(directory=CreateDirectory(name="Python"))).data
put = put_file.sync(made.id, "out/x", client=client, body=File(payload=io.BytesIO(b"python"))).data
changed = update_directory.sync(
    made.id, client=client, body=UpdateDirectoryBody(directory=BasicFields(description="changed"))
).data
events = list_events.sync(client=client).data
print(put.path, changed.description, len(events))
