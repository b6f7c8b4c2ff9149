/** A destination's config as it is stored: JSON in which secret values are replaced by sealed texts. */
import type { DestinationType } from '../contract/destination.ts'
import { hasSecretPath, mapSecrets } from '../contract/destination-secrets.ts'
import { hasUrlSecrets, redactedUrl } from '../contract/secret-url.ts'
import { type Sealer, UnsealError } from './secrets.ts'
import type { DestinationRow } from './tables.ts'

export function sealConfig(
  sealer: Sealer,
  destinationId: string,
  type: DestinationType,
  config: Readonly<Record<string, unknown>>,
): string {
  const isPathSecret = hasSecretPath(type, config)
  return JSON.stringify(
    mapSecrets(type, config, (value, place, kind) =>
      kind === 'url' && !hasUrlSecrets(value, isPathSecret)
        ? value
        : sealer.seal(value, belongsTo(destinationId, place)),
    ),
  )
}

type SealedRow = Pick<DestinationRow, 'destination_id' | 'destination_type' | 'destination_config'>

/** Returns the config in the clear, with its keys in the order in which they were sent. Throws UnsealError. */
export function openConfig(sealer: Sealer, row: SealedRow): Record<string, unknown> {
  return mapSecrets(row.destination_type, storedConfig(row), (value, place, kind) =>
    kind === 'url' && isInTheClear(value) ? value : sealer.open(value, belongsTo(row.destination_id, place)),
  )
}

/**
 * As `openConfig`, but values that cannot be unsealed, because the file was altered, are empty. `unreadable` lists
 * their positions. One such destination must not stop delivery to all others.
 */
export function readableConfig(
  sealer: Sealer,
  row: SealedRow,
): { config: Record<string, unknown>; unreadable: string[] } {
  const unreadable: string[] = []
  const config = mapSecrets(row.destination_type, storedConfig(row), (value, place, kind) => {
    if (kind === 'url' && isInTheClear(value)) return value
    try {
      return sealer.open(value, belongsTo(row.destination_id, place))
    } catch (error) {
      if (!(error instanceof UnsealError)) throw error
      unreadable.push(place)
      return ''
    }
  })
  return { config, unreadable }
}

/**
 * Returns the config with URLs as responses show them and all other secrets still sealed. It is used to show where
 * records are sent.
 */
export function urlConfig(sealer: Sealer, row: SealedRow): Record<string, unknown> {
  const stored = storedConfig(row)
  const isPathSecret = hasSecretPath(row.destination_type, stored)
  return mapSecrets(row.destination_type, stored, (value, place, kind) => {
    if (kind !== 'url') return value
    if (isInTheClear(value)) return redactedUrl(value, isPathSecret)
    try {
      return redactedUrl(sealer.open(value, belongsTo(row.destination_id, place)), isPathSecret)
    } catch (error) {
      if (!(error instanceof UnsealError)) throw error
      return ''
    }
  })
}

function storedConfig(row: SealedRow): Record<string, unknown> {
  return JSON.parse(row.destination_config)
}

/** URLs without secrets are stored in the clear. Early versions stored all URLs that way. */
function isInTheClear(url: string): boolean {
  return /^https?:/i.test(url)
}

function belongsTo(destinationId: string, place: string): string {
  return `destination ${destinationId} ${place}`
}
