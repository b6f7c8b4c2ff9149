/** The `code` of a system, SQLite or library error, e.g. `ENOENT`; null when it has none. */
export function errorCode(error: unknown): string | null {
  if (typeof error !== 'object' || error === null || !('code' in error)) return null
  return typeof error.code === 'string' ? error.code : null
}

/**
 * SQLite makes the -shm file of a WAL database anew whenever the first connection opens it. It does so before it reads
 * or writes anything else, so a failure there leaves nothing half-done; its codes do not say whether space was missing.
 */
const noSpaceCodes = new Set([
  'ENOSPC',
  'EDQUOT',
  'SQLITE_FULL',
  'SQLITE_IOERR_SHMSIZE',
  'SQLITE_IOERR_SHMOPEN',
  'SQLITE_IOERR_SHMMAP',
])

/** There was no space for it, and nothing of it was done. Also of an error that came from another thread. */
export function isNoSpace(error: unknown): boolean {
  return noSpaceCodes.has(errorCode(error) ?? '')
}

/** Nothing can be stored for now (no space, locked for too long): what was asked was not done, and may be asked again. */
export class StorageUnavailableError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'StorageUnavailableError'
  }
}

/** Delivery is being restarted. The requested action may or may not have been done. */
export class DeliveryUnavailableError extends StorageUnavailableError {
  constructor(message: string, cause?: unknown) {
    super(message, cause)
    this.name = 'DeliveryUnavailableError'
  }
}

/** In a cluster: no node could be asked, or the one that was has not answered. `message` is for the log. */
export class DeliveryElsewhereError extends DeliveryUnavailableError {
  /** True: nothing was done. False: the outcome is unknown. */
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
