/** The fields of a pipe as flags, for `pipes create` and `pipes update`. */
import type { Command } from 'commander'
import type { PipeUpdate } from '../../contract/pipe.ts'
import { usageFailure } from '../client/failure.ts'
import { fieldsFromFlags, geoDimensions, pipeFlags } from '../client/flag-fields.ts'
import { addFlagOptions } from './flag-options.ts'
import { readSchemaFile } from './pipe-schema/files.ts'

export interface PipeFieldOptions {
  geo?: string[]
  schema?: string
}

const isDimension = (name: string): name is keyof typeof geoDimensions => Object.hasOwn(geoDimensions, name)

export function addPipeFieldOptions(command: Command): void {
  addFlagOptions(command, pipeFlags)
  command.option(
    '--schema <file>',
    'a JSON file with the schema of each record, - for stdin; `none` for none (docs/schemas.md)',
  )
  command.option(
    '--geo <dimension[=key]>',
    `write a geolocation field; can be repeated: ${Object.keys(geoDimensions).join(', ')}; \`all\`; \`none\`; dimension= turns one off`,
    (value: string, earlier: string[] = []) => [...earlier, ...value.split(',')],
  )
}

/** The given fields. Throws Failure (usage) for an unknown geo dimension. */
export function pipeFields(options: PipeFieldOptions): PipeUpdate {
  const fields: PipeUpdate = fieldsFromFlags(pipeFlags, options)
  if (options.schema !== undefined) {
    const { schema: file } = options
    fields.pipe_schema = file === 'none' ? null : readSchemaFile(file, `--schema ${file}`)
  }
  for (const given of options.geo ?? []) addGeo(fields, given)
  return fields
}

function addGeo(fields: PipeUpdate, given: string): void {
  if (given === 'all' || given === 'none') {
    for (const [field, key] of Object.values(geoDimensions)) fields[field] = given === 'all' ? key : null
    return
  }
  const [name = '', key] = given.split('=', 2)
  if (!isDimension(name)) {
    throw usageFailure(
      `--geo ${JSON.stringify(given)}: there is no such dimension`,
      `use ${Object.keys(geoDimensions).join(', ')}, all or none, e.g. --geo country --geo city=town`,
    )
  }
  const [field, usual] = geoDimensions[name]
  fields[field] = key === '' ? null : (key ?? usual)
}
