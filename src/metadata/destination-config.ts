/** A destination's config and transform as they are stored: JSON in which secret values are replaced by sealed texts. */

import type { DestinationType } from '../contract/destination.ts'
import { hasSecretPath, mapSecrets } from '../contract/destination-secrets.ts'
import { hasUrlSecrets, redactedUrl } from '../contract/secret-url.ts'
import { maskSaltPlace, type Transform } from '../contract/transform.ts'
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
 * The config and the transform in the clear. Values that cannot be unsealed, because the file was altered, are empty.
 * `unreadable` lists their positions. One such destination must not stop delivery to all others.
 */
export function readable(
  sealer: Sealer,
  row: SealedRow & SealedTransform,
): { config: Record<string, unknown>; transform: Transform | null; unreadable: string[] } {
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
  try {
    return { config, transform: openTransform(sealer, row), unreadable }
  } catch (error) {
    if (!(error instanceof UnsealError) || row.transform === null) throw error
    const transform = { ...JSON.parse(row.transform), mask_salt: '' }
    return { config, transform, unreadable: [...unreadable, maskSaltPlace] }
  }
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

export function sealTransform(
  sealer: Sealer,
  destinationId: string,
  transform: Transform | null,
): string | null {
  if (transform === null) return null
  const { mask_salt } = transform
  return JSON.stringify({
    ...transform,
    mask_salt: mask_salt === null ? null : sealer.seal(mask_salt, belongsTo(destinationId, maskSaltPlace)),
  })
}

type SealedTransform = Pick<DestinationRow, 'destination_id' | 'transform'>

/** Returns the transform with its salt in the clear. Throws UnsealError. */
export function openTransform(sealer: Sealer, row: SealedTransform): Transform | null {
  if (row.transform === null) return null
  const stored: Transform = JSON.parse(row.transform)
  const { mask_salt } = stored
  if (mask_salt === null) return stored
  return { ...stored, mask_salt: sealer.open(mask_salt, belongsTo(row.destination_id, maskSaltPlace)) }
}

/** Returns the transform without its salt, for a destination whose sealing key is lost. */
export function withoutSalt(row: SealedTransform): string | null {
  return row.transform === null ? null : JSON.stringify({ ...JSON.parse(row.transform), mask_salt: '' })
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
