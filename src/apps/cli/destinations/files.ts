/** Reads the files of `-f`, with the field names of the API, and of `--sample-file`, with records. */
import { closeSync, existsSync, openSync, readSync } from 'node:fs'
import { isObject } from '../../../contract/is-object.ts'
import type { DestinationBody } from '../../client/client.ts'
import { usageFailure } from '../../client/failure.ts'
import { destinationSettings } from '../../client/flag-fields.ts'
import { fromTheStart, whyNoRecord } from '../ingest/input.ts'
import { RecordSplitter } from '../ingest/record-splitter.ts'

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

const maxRecords = 1_000
/** The sample is JSON text within a body of 1 MiB, in which quotes and backslashes take two characters. */
const maxCharacters = 450_000

/** The first records of a file, one per line. Throws Failure (usage). */
export function sampleText(name: string): string {
  if (name !== '-' && !existsSync(name))
    throw usageFailure(`--sample-file ${name}: there is no such file`, 'name a file, or - for stdin')
  const splitter = new RecordSplitter(fromTheStart, name === '-' ? 'stdin' : name)
  const lines: string[] = []
  let characters = 0
  const take = (pieces: ReturnType<RecordSplitter['push']>) => {
    for (const piece of pieces) {
      const why = piece.kind === 'invalid' ? piece.reason : whyNoRecord(piece.bytes)
      if (why !== null)
        throw usageFailure(`--sample-file ${name}, line ${piece.line}: ${why}`, 'records are JSON objects')
      const line = piece.bytes.toString('utf8').replace(/[\r\n]+/g, ' ')
      characters += line.length + 1
      if (lines.length > 0 && characters > maxCharacters) return false
      if (lines.push(line) === maxRecords) return false
    }
    return true
  }
  const file = name === '-' ? 0 : openSync(name, 'r')
  try {
    const chunk = Buffer.alloc(64 * 1024)
    for (let read = readSync(file, chunk); read > 0; read = readSync(file, chunk))
      if (!take(splitter.push(Buffer.from(chunk.subarray(0, read))))) return lines.join('\n')
    take(splitter.finish())
    return lines.join('\n')
  } finally {
    if (name !== '-') closeSync(file)
  }
}
