/** `-f`: reads the body of a destination from a file that uses the field names of the API. */
import { existsSync } from 'node:fs'
import { isObject } from '../../../contract/is-object.ts'
import type { DestinationBody } from '../../client/client.ts'
import { usageFailure } from '../../client/failure.ts'
import { destinationSettings } from '../../client/flag-fields.ts'

/** Replaces variables from the environment. Throws Failure (usage). */
export async function bodyFromFile(name: string): Promise<Partial<DestinationBody>> {
  if (name !== '-' && !existsSync(name)) {
    throw usageFailure(`-f ${name}: there is no such file`, 'name a file, or - for stdin')
  }
  const { readYamlFile, rejectUnknownKeys } = await import('../manifest/yaml-file.ts')
  const file = readYamlFile(name)
  if (!isObject(file.value))
    throw file.fault([], 'it has no destination', 'it must be a mapping with destination_config')
  const known = ['destination_type', 'destination_config', ...destinationSettings]
  rejectUnknownKeys(file, [], known, file.value)
  const body: Partial<DestinationBody> = { ...file.value }
  if (isObject(body.transform) && typeof body.transform.mask_salt === 'string') {
    const mask_salt = file.expand(['transform', 'mask_salt'], body.transform.mask_salt)
    body.transform = { ...body.transform, mask_salt }
  }
  if (!isObject(body.destination_config)) return body
  const expanded = (path: readonly string[], value: unknown): unknown => {
    if (typeof value === 'string') return file.expand(path, value)
    if (!isObject(value)) return value
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, expanded([...path, key], one)]))
  }
  const config = expanded(['destination_config'], body.destination_config)
  return { ...body, destination_config: isObject(config) ? config : {} }
}
