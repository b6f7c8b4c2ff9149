/** Where the file of a destination is. */
import { DeliveryError, type DriverSettings, type SqliteSpec } from '../driver.ts'
import { tableFilePath } from './files.ts'

export interface PlacedFile {
  path: string
  workspaceId: string
  minFreeBytes: number
}

/** Throws the permanent `sqlite_in_cluster` on a node of a cluster. A destination can get there by `pipectl migrate`. */
export function placeOf({ config, workspaceId }: SqliteSpec, { tables = null }: DriverSettings): PlacedFile {
  if (tables === null) {
    const message =
      'A SQLite file belongs to one machine, and this service is a cluster: create a destination with a database server.'
    throw new DeliveryError('permanent', 'sqlite_in_cluster', message)
  }
  if (workspaceId === undefined) throw new Error('the destination has no workspace')
  const path = tableFilePath(tables.dir, workspaceId, config.file)
  return { path, workspaceId, minFreeBytes: tables.minFreeBytes }
}
