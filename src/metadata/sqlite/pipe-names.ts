/** The names of all pipes in a metadata file, by id. Changes nothing. */
import { readSqliteFile } from './file.ts'

export function pipeNames(file: string): Map<string, string> {
  return new Map([...pipeOwners(file)].map(([pipeId, { pipeName }]) => [pipeId, pipeName]))
}

export function pipeOwners(file: string): Map<string, { pipeName: string; workspaceName: string }> {
  return readSqliteFile(file, (database) => {
    const rows = database
      .prepare<[], [string, string, string]>(
        'SELECT pipe_id, pipe_name, workspace_name FROM pipes JOIN workspaces USING (workspace_id)',
      )
      .raw()
    return new Map(
      rows.all().map(([pipeId, pipeName, workspaceName]) => [pipeId, { pipeName, workspaceName }]),
    )
  })
}
