/** Exports a workspace as `pipectl.yaml`. Defaults are omitted, and secrets become references to variables. */
import { isDeepStrictEqual } from 'node:util'
import { Document } from 'yaml'
import { defaultConcurrency } from '../../../contract/delivery-settings.ts'
import type { ColumnMapping, Destination } from '../../../contract/destination.ts'
import { defaultMaxRetrySeconds, redacted } from '../../../contract/destination.ts'
import { isObject } from '../../../contract/is-object.ts'
import { type Pipe, pipeDefaults } from '../../../contract/pipe.ts'
import { filledUrl } from '../../../contract/secret-url.ts'
import type { ShownTransform } from '../../../contract/transform.ts'
import type { PipeDetail } from '../../client/client.ts'
import { yamlText } from '../yaml-text.ts'
import { exportedSource } from './source.ts'

/** YAML text for `apply`, and the variables that it refers to. */
export function exportYaml(
  details: readonly PipeDetail[],
  onTerminal = false,
): { yaml: string; variables: string[] } {
  const variables: string[] = []
  const pipes = details.map((detail) => {
    const { limits, allowed_origins: origins, destinations } = detail
    return {
      ...exportedPipe(detail.pipe, variables),
      ...(limits === null ? {} : { limits: withoutNulls(limits) }),
      ...(origins.length === 0 ? {} : { allowed_origins: origins.map((one) => one.origin_domain) }),
      ...(destinations.length === 0
        ? {}
        : {
            destinations: destinations.map((one) =>
              exportedDestination(detail.pipe.pipe_name, one, variables),
            ),
          }),
    }
  })
  const document = new Document({ pipes }, { aliasDuplicateObjects: false })
  return { yaml: yamlText(document, onTerminal), variables }
}

function exportedPipe(pipe: Pipe, variables: string[]): Record<string, unknown> {
  const {
    pipe_id: _,
    pipe_created_ts: __,
    pipe_updated_ts: ___,
    pipe_name,
    pipe_status,
    pipe_source,
    ...fields
  } = pipe
  const defaults = new Map<string, unknown>(Object.entries(pipeDefaults))
  const changed = Object.entries(fields).filter(
    ([key, value]) => !isDeepStrictEqual(value, defaults.get(key)),
  )
  return {
    pipe_name,
    ...(pipe_status === 'active' ? {} : { pipe_status }),
    ...Object.fromEntries(changed),
    ...(pipe_source === null
      ? {}
      : { pipe_source: exportedSource(pipe_source, references([pipe_name], variables)) }),
  }
}

/** `${…}` with a separate variable for each secret. */
type Reference = (...keys: string[]) => string

function references(owner: readonly string[], variables: string[]): Reference {
  return (...keys) => {
    const name = [...owner, ...keys]
      .join('_')
      .toUpperCase()
      .replace(/[^A-Z0-9]+/g, '_')
      .replace(/^(\d)/, '_$1')
    // Two secrets never share a variable, even if their names differ only in punctuation.
    let variable = name
    for (let next = 2; variables.includes(variable); next++) variable = `${name}_${next}`
    variables.push(variable)
    return `\${${variable}}`
  }
}

function exportedDestination(
  pipeName: string,
  destination: Destination,
  variables: string[],
): Record<string, unknown> {
  const reference = references([pipeName, destination.destination_name], variables)
  const {
    destination_name,
    flush,
    rate,
    concurrency = defaultConcurrency,
    on_permanent_error,
    transform,
  } = destination
  return {
    destination_name,
    destination_type: destination.destination_type,
    ...(destination.destination_status === 'active'
      ? {}
      : { destination_status: destination.destination_status }),
    ...(destination.destination_max_retry_seconds === defaultMaxRetrySeconds
      ? {}
      : { destination_max_retry_seconds: destination.destination_max_retry_seconds }),
    ...withoutNulls({ flush, rate }),
    ...(concurrency === defaultConcurrency ? {} : { concurrency }),
    ...(on_permanent_error === 'block' ? {} : { on_permanent_error }),
    ...(transform ? { transform: exportedTransform(transform, reference) } : {}),
    destination_config: exportedConfig(destination.destination_config, reference),
    ...(destination.columns?.length ? { columns: destination.columns.map(exportedColumn) } : {}),
  }
}

function exportedConfig(given: object, reference: Reference): Record<string, unknown> {
  const config: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(given)) {
    if (isObject(value) && Object.values(value).some((one) => one === redacted)) {
      config[key] = Object.fromEntries(Object.keys(value).map((name) => [name, reference(key, name)]))
    } else if (typeof value !== 'string') config[key] = value
    else if (value === redacted) config[key] = reference(key)
    else {
      const escaped = value.replaceAll('${', '$${')
      config[key] = value.includes(redacted)
        ? filledUrl(escaped, (name) => reference(key, ...(name === null ? [] : [name])))
        : escaped
    }
  }
  return config
}

function exportedTransform(
  { filter, map, mask_salt }: ShownTransform,
  reference: Reference,
): Record<string, unknown> {
  return {
    ...withoutNulls({ filter }),
    ...(map.length === 0 ? {} : { map }),
    ...(mask_salt === undefined ? {} : { mask_salt: reference('mask_salt') }),
  }
}

function exportedColumn(column: ColumnMapping): Record<string, unknown> {
  const { nullable, ...rest } = column
  return { ...withoutNulls(rest), ...(nullable ? {} : { nullable }) }
}

function withoutNulls(value: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== null))
}
