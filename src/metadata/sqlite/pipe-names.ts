/** The names of all pipes in a metadata file, by id. Changes nothing. */
import { readSqliteFile } from './file.ts'

export function pipeNames(file: string): Map<string, string> {
  return readSqliteFile(file, (database) => {
    const rows = database.prepare<[], [string, string]>('SELECT pipe_id, pipe_name FROM pipes').raw()
    return new Map(rows.all())
  })
}
