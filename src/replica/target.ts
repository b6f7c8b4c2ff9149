/** The replica's place and account, from the settings. */
import { readFileSync } from 'node:fs'
import { ConfigError } from '../platform/config-error.ts'
import { errorCode } from '../platform/error-code.ts'
import { parseReplicaUrl, type ReplicaSettings } from '../settings/replica-settings.ts'
import type { ReplicaTarget } from './bucket.ts'

/**
 * Null: `replica.url` is not set. `from` is another address with the same account, for example that of a restore. Throws
 * ConfigError if the address is invalid or the file of the secret key cannot be read.
 */
export function replicaTarget(settings: ReplicaSettings): ReplicaTarget | null
export function replicaTarget(settings: ReplicaSettings, from: { url: string; label: string }): ReplicaTarget
export function replicaTarget(
  settings: ReplicaSettings,
  from: { url: string; label: string } | null = null,
): ReplicaTarget | null {
  const url = from?.url ?? settings['replica.url']
  if (url === null) return null
  const endpoint = settings['replica.endpoint']
  return {
    ...parseReplicaUrl(url, from?.label),
    region: settings['replica.region'],
    endpoint,
    forcePathStyle: settings['replica.force_path_style'] ?? endpoint !== null,
    accessKey: settings['replica.access_key'],
    secretKey: secretKeyOf(settings),
    sessionToken: settings['replica.session_token'],
    sse: settings['replica.sse'],
    kmsKeyId: settings['replica.kms_key_id'],
  }
}

function secretKeyOf(settings: ReplicaSettings): string | null {
  const file = settings['replica.secret_key_file']
  if (file === null) return settings['replica.secret_key']
  const key = readKey(file).trim()
  if (/^[\x21-\x7e]+$/.test(key)) return key
  throw new ConfigError(`replica.secret_key_file: ${file} must contain the secret key and nothing else`)
}

function readKey(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new ConfigError(
      `replica.secret_key_file: ${file} cannot be read (${errorCode(error) ?? 'unknown error'})`,
      error,
    )
  }
}
