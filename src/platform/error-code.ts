/** The text of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The `code` of a system, SQLite or library error, e.g. `ENOENT`; null when it has none. */
export function errorCode(error: unknown): string | null {
  if (typeof error !== 'object' || error === null || !('code' in error)) return null
  return typeof error.code === 'string' ? error.code : null
}

/**
 * SQLite creates the -shm file of a WAL database each time a first connection opens it. It does so before it reads or
 * writes anything else, so a failure there leaves nothing half-done; its codes do not say whether space was missing.
 */
const noSpaceCodes = new Set([
  'ENOSPC',
  'EDQUOT',
  'SQLITE_FULL',
  'SQLITE_IOERR_SHMSIZE',
  'SQLITE_IOERR_SHMOPEN',
  'SQLITE_IOERR_SHMMAP',
])

/**
 * True when the operation failed for lack of disk space and changed nothing. Also recognizes errors that crossed
 * threads.
 */
export function isNoSpace(error: unknown): boolean {
  return noSpaceCodes.has(errorCode(error) ?? '')
}

/** Nothing can be stored for now (disk full, or the database is locked). The operation was not done and can be repeated. */
export class StorageUnavailableError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'StorageUnavailableError'
  }
}

/** Delivery is restarting. The outcome of the requested action is unknown. */
export class DeliveryUnavailableError extends StorageUnavailableError {
  constructor(message: string, cause?: unknown) {
    super(message, cause)
    this.name = 'DeliveryUnavailableError'
  }
}

/** In a cluster: no node could be reached, or the node that was asked did not respond. `message` is for the log. */
export class DeliveryElsewhereError extends DeliveryUnavailableError {
  /** True when nothing was done; false when the outcome is unknown. */
  readonly isUndone: boolean
  constructor(isUndone: boolean, message: string, cause?: unknown) {
    super(message, cause)
    this.name = 'DeliveryElsewhereError'
    this.isUndone = isUndone
  }
}

/** In a cluster: this node does not run the lane. Nothing was done. */
export class LaneElsewhereError extends Error {
  constructor(destinationId: string) {
    super(`destination ${destinationId} is delivered by another node`)
    this.name = 'LaneElsewhereError'
  }
}
