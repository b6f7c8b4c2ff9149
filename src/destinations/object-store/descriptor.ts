/** Facts and rules of S3-compatible object stores. */
import { parseKeyTemplate } from '../../contract/key-template.ts'
import type { DestinationDescriptor, ObjectStoreSpec } from '../driver.ts'
import { hasControlCharacters, httpUrlFault } from '../url-rules.ts'
import { parquetColumnFaults } from './parquet-columns.ts'

export const objectStore: DestinationDescriptor<ObjectStoreSpec> = {
  type: 'destination_object_store',
  rules(config) {
    const faults: [string, string][] = []
    if (/[\s/\\\p{Cc}]/u.test(config.bucket) || /^\.+$/.test(config.bucket))
      faults.push(['bucket', 'must be a bucket name'])
    for (const key of [
      'region',
      'storage_class',
      'kms_key_id',
      'access_key',
      'secret_key',
      'session_token',
    ] as const)
      if (hasControlCharacters(config[key] ?? '')) faults.push([key, 'must not contain control characters'])
    const endpointFault = config.endpoint === null ? null : endpointFaultOf(config.endpoint)
    if (endpointFault !== null) faults.push(['endpoint', endpointFault])
    faults.push(...credentialFaults(config))
    const template = parseKeyTemplate(config.key_template)
    if (!template.ok) faults.push(['key_template', template.message])
    if (config.kms_key_id !== null && config.sse !== 'aws:kms')
      faults.push(['kms_key_id', 'requires sse "aws:kms"'])
    const { format, compression } = config
    if (format !== 'parquet' && (compression === 'snappy' || compression === 'zstd'))
      faults.push(['compression', `must be gzip or none: ${compression} requires format "parquet"`])
    return faults
  },
  // The columns are the schema of a Parquet object. Other formats store records unchanged.
  columnFaults(columns, { format }) {
    if (format === 'parquet') return parquetColumnFaults(columns)
    return columns.length === 0 ? [] : [['', 'require format "parquet": send [] with any other format']]
  },
  targets: ({ endpoint }) => (endpoint === null ? [] : [{ key: 'endpoint', url: endpoint }]),
  // Above the 110 s limit of a request.
  attemptLimitMs: () => 120_000,
  requestsPerBatch: () => 1,
  // Parquet objects are encoded one at a time, which takes far longer than the reading of a batch.
  readsAhead: ({ format }) => format !== 'parquet',
  isTransactional: false,
  isExactlyOnce: () => false,
  // Not sealed: responses of the management API show it.
  secrets: ({ access_key }) => [access_key ?? ''],
  load: async () => (await import('./driver.ts')).objectStore,
}

function credentialFaults(config: ObjectStoreSpec['config']): [string, string][] {
  const { access_key, secret_key, session_token } = config
  if (access_key !== null) return secret_key === null ? [['secret_key', 'is required with access_key']] : []
  return Object.entries({ secret_key, session_token })
    .filter(([, value]) => value !== null)
    .map(([key]) => ['access_key', `is required with ${key}`])
}

function endpointFaultOf(endpoint: string): string | null {
  const fault = httpUrlFault(endpoint)
  if (fault !== null) return fault
  const { username, password } = new URL(endpoint)
  return username === '' && password === ''
    ? null
    : 'must not contain a user name or password: they would be shown'
}
