/** A destination's transform as it is stored: JSON in which the salt is replaced by a sealed text. */
import { maskSaltPlace, type Transform } from '../contract/transform.ts'
import { type Sealer, UnsealError } from './secrets.ts'
import type { DestinationRow } from './tables.ts'

export function sealTransform(
  sealer: Sealer,
  destinationId: string,
  transform: Transform | null,
): string | null {
  if (transform === null) return null
  const { mask_salt } = transform
  return JSON.stringify({
    ...transform,
    mask_salt: mask_salt === null ? null : sealer.seal(mask_salt, belongsTo(destinationId)),
  })
}

type SealedRow = Pick<DestinationRow, 'destination_id' | 'transform'>

/** Returns the transform with its salt in the clear. Throws UnsealError. */
export function openTransform(sealer: Sealer, row: SealedRow): Transform | null {
  if (row.transform === null) return null
  const stored: Transform = JSON.parse(row.transform)
  const { mask_salt } = stored
  if (mask_salt === null) return stored
  return { ...stored, mask_salt: sealer.open(mask_salt, belongsTo(row.destination_id)) }
}

/** As `openTransform`, but a salt that cannot be unsealed is empty, and `unreadable` holds its position. */
export function readableTransform(
  sealer: Sealer,
  row: SealedRow,
): { transform: Transform | null; unreadable: string[] } {
  try {
    return { transform: openTransform(sealer, row), unreadable: [] }
  } catch (error) {
    if (!(error instanceof UnsealError) || row.transform === null) throw error
    return { transform: { ...JSON.parse(row.transform), mask_salt: '' }, unreadable: [maskSaltPlace] }
  }
}

/** Returns the transform without its salt, for a destination whose sealing key is lost. */
export function withoutSalt(row: SealedRow): string | null {
  return row.transform === null ? null : JSON.stringify({ ...JSON.parse(row.transform), mask_salt: '' })
}

function belongsTo(destinationId: string): string {
  return `destination ${destinationId} ${maskSaltPlace}`
}
