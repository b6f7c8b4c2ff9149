/** The address of a replica: `s3://bucket/prefix`. Credentials are settings of their own. */
import { ConfigError } from '../platform/config-error.ts'

export interface ReplicaAddress {
  bucket: string
  /** Empty, or with a slash at its end. */
  prefix: string
}

/** Throws ConfigError, which names the setting or flag (`label`) and does not repeat the text: it can contain a password. */
export function parseReplicaUrl(url: string, label = 'replica.url'): ReplicaAddress {
  const [, bucket, path = ''] = /^s3:\/\/([a-z0-9][a-z0-9._-]{1,253}[a-z0-9])(?:\/(.*))?$/i.exec(url) ?? []
  const parts = path.replace(/\/$/, '').split('/')
  const isPrefix =
    path === '' || parts.every((part) => /^[a-zA-Z0-9!_.*'()=+@-]+$/.test(part) && !/^\.+$/.test(part))
  if (bucket === undefined || !isPrefix || path.length > maxPrefixCharacters)
    throw new ConfigError(
      `${label}: must be s3://BUCKET or s3://BUCKET/PREFIX, with letters, digits and !_.*'()=+@- in the prefix`,
    )
  return { bucket, prefix: path === '' ? '' : `${parts.join('/')}/` }
}

/** The keys of S3 have at most 1,024 bytes; the names of the replica need 60. */
const maxPrefixCharacters = 900
