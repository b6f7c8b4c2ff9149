/** Changes the schema of a pipe as it was read. */
import type { PipeUpdate } from '../../../contract/pipe.ts'
import { ifUnchanged } from '../../client/changed-meanwhile.ts'
import type { Client, PipeDetail, Reply } from '../../client/client.ts'
import { say } from '../terminal.ts'

type SchemaChange = Pick<PipeUpdate, 'pipe_schema' | 'pipe_schema_on_mismatch' | 'pipe_schema_tag_field'>

export async function setSchema(
  client: Client,
  { body, etag }: Reply<PipeDetail>,
  change: SchemaChange,
): Promise<void> {
  const { pipe_id, pipe_name } = body.pipe
  const reply = await ifUnchanged(`pipe ${pipe_name}`, body, () =>
    client.call('updatePipe', { path: { pipe_id }, body: change, ifMatch: etag }),
  )
  const { pipe_schema, pipe_schema_on_mismatch: action, pipe_schema_tag_field: key } = reply.body.pipe
  if (pipe_schema === null) say(`Pipe ${pipe_name} has no schema: it accepts every JSON object.`)
  else say(`Pipe ${pipe_name} checks its records. Records that do not match are ${outcome(action, key)}.`)
}

function outcome(action: string, tagField: string): string {
  if (action === 'tag') return `accepted with their errors under ${tagField}`
  return action === 'park' ? 'parked' : 'rejected with their request'
}
