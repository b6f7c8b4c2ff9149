/** A destination's config as stored: JSON, the values of the type's secret keys replaced by sealed texts, in place. */
import assert from 'node:assert/strict'
import { type DestinationType, secretKeys } from '../contract/destination.ts'
import type { DestinationRow } from './schema.ts'
import type { Sealer } from './secrets.ts'

/** Secret keys hold a string or null; null says "not set" and needs no seal. */
export function sealConfig(
  sealer: Sealer,
  destinationId: string,
  type: DestinationType,
  config: Readonly<Record<string, unknown>>,
): string {
  const sealed: [string, unknown][] = Object.entries(config).map(([key, value]) => {
    if (!secretKeys[type].includes(key) || value === null || value === undefined) return [key, value]
    assert.ok(typeof value === 'string', `${key} of a destination config is not a string`)
    return [key, sealer.seal(value, belongsTo(destinationId, key))]
  })
  return JSON.stringify(Object.fromEntries(sealed))
}

/** The config in the clear, keys in the order they were given. */
export function openConfig(
  sealer: Sealer,
  row: Pick<DestinationRow, 'destination_id' | 'destination_type' | 'destination_config'>,
): Record<string, unknown> {
  const stored: Record<string, unknown> = JSON.parse(row.destination_config)
  const opened: [string, unknown][] = Object.entries(stored).map(([key, value]) => {
    const isSealed = secretKeys[row.destination_type].includes(key) && typeof value === 'string'
    return [key, isSealed ? sealer.open(value, belongsTo(row.destination_id, key)) : value]
  })
  return Object.fromEntries(opened)
}

function belongsTo(destinationId: string, key: string): string {
  return `destination ${destinationId} ${key}`
}
