/**
 * The sealing key: 32 bytes that seal every stored secret. It is read from the first of these that exists: the file of
 * the setting `secrets.key_file`; the systemd credential `pipectl-sealing-key`; `sealing.key` in the data directory,
 * which is created on the first start. Without the key the secrets in a metadata file are lost, so the key is never
 * overwritten.
 */
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import path from 'node:path'
import { ConfigError } from '../platform/config-error.ts'
import { errorCode, isNoSpace } from '../platform/error-code.ts'
import { fsyncDirectory } from '../platform/fsync.ts'

export interface SealingKeyOptions {
  /** The value of the setting `secrets.key_file`. */
  file: string | null
  dataDir: string
  /** Create `sealing.key` in the data directory if there is no key. */
  create: boolean
  /** The hint in the error for a missing key. */
  whenMissing?: string
  env: Readonly<Record<string, string | undefined>>
}

const putBack = 'put back the key of this data directory, or set secrets.key_file'
const keyBytes = 32
const credentialName = 'pipectl-sealing-key'

/**
 * Throws ConfigError if the key is missing, unreadable, readable by other users, or not 32 bytes (raw, or as base64
 * text).
 */
export async function loadSealingKey(options: SealingKeyOptions): Promise<Buffer> {
  const { whenMissing = putBack } = options
  if (options.file !== null) return readKey('secrets.key_file', options.file, 0o077, whenMissing)
  const credentials = options.env.CREDENTIALS_DIRECTORY
  if (credentials) {
    const credential = path.join(credentials, credentialName)
    // systemd may give access through an ACL, whose mask appears in the group bits.
    if (existsSync(credential))
      return readKey(`systemd credential ${credentialName}`, credential, 0o007, whenMissing)
  }
  const own = path.join(options.dataDir, 'sealing.key')
  if (options.create && !existsSync(own)) makeSealingKey(own)
  return readKey('sealing key', own, 0o077, whenMissing)
}

function readKey(label: string, file: string, forbiddenBits: number, whenMissing: string): Buffer {
  let content: Buffer
  let mode: number
  try {
    mode = statSync(file).mode
    content = readFileSync(file)
  } catch (error) {
    const code = errorCode(error) ?? 'unknown error'
    if (code === 'ENOENT') {
      throw new ConfigError(`${label}: ${file} does not exist; ${whenMissing}`)
    }
    throw new ConfigError(`${label}: ${file} cannot be read (${code})`)
  }
  if ((mode & forbiddenBits) !== 0) {
    const shown = (mode & 0o777).toString(8).padStart(4, '0')
    throw new ConfigError(
      `${label}: ${file} can be read by other users (mode ${shown}); run \`chmod 600 ${file}\``,
    )
  }
  const key = content.length === keyBytes ? content : decodeBase64(content)
  if (key === null) {
    throw new ConfigError(
      `${label}: ${file} must contain 32 bytes, raw or as base64 (\`openssl rand -base64 32\`), not ${content.length} bytes of other content`,
    )
  }
  return key
}

function decodeBase64(content: Buffer): Buffer | null {
  const text = content.toString('latin1').trim()
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return null
  const key = Buffer.from(text, 'base64')
  return key.length === keyBytes ? key : null
}

/**
 * Creates the file as a whole or not at all: temp file → fsync (the bytes) → link (the name) → fsync of the directory
 * (the name itself). Unlike a rename, a link fails if the name exists. The slower of two processes then uses the
 * other's key, and does not replace a key that may have sealed something.
 */
export function makeSealingKey(file: string): void {
  const temporary = `${file}.${process.pid}.${randomBytes(4).toString('hex')}.tmp`
  try {
    writeDurably(temporary, `${randomBytes(keyBytes).toString('base64')}\n`)
    try {
      linkSync(temporary, file)
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') throw error
    } finally {
      unlinkSync(temporary)
    }
    fsyncDirectory(path.dirname(file))
  } catch (error) {
    if (isNoSpace(error)) throw error
    throw new ConfigError(`sealing key: ${file} cannot be created (${errorCode(error) ?? 'unknown error'})`)
  }
}

function writeDurably(file: string, text: string): void {
  const descriptor = openSync(file, 'wx', 0o600)
  try {
    writeSync(descriptor, text)
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
