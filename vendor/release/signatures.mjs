/**
 * Checksums and signatures. gpg signs, with a key of the releaser that stays in its keyring (GNUPGHOME) or on a card. A passphrase
 * is asked for by the agent of gpg, or read from a file that only its owner can read: arguments and variables are
 * visible to other processes.
 *
 * A `signer` is `{ key, passphraseFile }`; `key` is anything that gpg accepts: an id, a fingerprint, an address.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

/** Throws if the keyring has no secret key for it, or others can read the file with the passphrase. */
export function openSigner({ key, passphraseFile = null }) {
  if (passphraseFile !== null && (statSync(passphraseFile).mode & 0o077) !== 0)
    throw new Error(`${passphraseFile} is readable by others: chmod 600 ${passphraseFile}`)
  try {
    gpg('--list-secret-keys', key)
  } catch {
    throw new Error(
      `gpg has no secret key for "${key}": name one with --key, or use --no-sign for a rehearsal`,
    )
  }
  return { key, passphraseFile }
}

export function signDetached(signer, file, target = `${file}.asc`) {
  sign(signer, '--armor', '--detach-sign', '--output', target, file)
}

/** The text itself with a signature around it. */
export function signClear(signer, file, target) {
  sign(signer, '--clear-sign', '--output', target, file)
}

export function writePublicKey({ key }, file) {
  writeFileSync(file, gpg('--armor', '--export-options', 'export-minimal', '--export', key))
}

/** `SHA256  NAME`, as sha256sum writes and checks them. `names` are below `folder`. */
export function writeChecksums(folder, names) {
  const lines = [...names].sort().map((name) => `${sha256(path.join(folder, name))}  ${name}\n`)
  writeFileSync(path.join(folder, 'SHA256SUMS'), lines.join(''))
}

/**
 * Checks a folder as someone does who has only the public key: the signatures with a keyring of nothing else, and every
 * checksum. Throws with gpg's words, or the names of the files that differ.
 */
export function verifyRelease(folder, keyFile = path.join(folder, 'pipectl-release-key.asc')) {
  const home = mkdtempSync(path.join(os.tmpdir(), 'pipectl-verify-'))
  const dist = path.join(folder, 'apt/dists/stable')
  const signed = [
    [path.join(folder, 'SHA256SUMS.asc'), path.join(folder, 'SHA256SUMS')],
    [path.join(dist, 'InRelease')],
    [path.join(dist, 'Release.gpg'), path.join(dist, 'Release')],
  ]
  try {
    gpg('--homedir', home, '--import', keyFile)
    for (const files of signed) requireGoodSignature(home, files)
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
  verifyChecksums(folder)
}

/** gpg ends with 0 for the signature of an expired key, too. */
function requireGoodSignature(home, files) {
  const status = gpg('--homedir', home, '--status-fd', '1', '--verify', ...files)
  if (!/^\[GNUPG:\] GOODSIG /m.test(status))
    throw new Error(`gpg: the signature of ${files.at(-1)} is not good: is the key expired?`)
}

function verifyChecksums(folder) {
  const lines = readFileSync(path.join(folder, 'SHA256SUMS'), 'utf8').trimEnd().split('\n')
  const entries = lines.map((line) => line.split('  '))
  const changed = entries.filter(([sum, name]) => sha256(path.join(folder, name)) !== sum)
  if (changed.length > 0)
    throw new Error(`files differ from SHA256SUMS: ${changed.map(([, name]) => name).join(', ')}`)
}

function sign({ key, passphraseFile }, ...args) {
  const passphrase =
    passphraseFile === null ? [] : ['--pinentry-mode', 'loopback', '--passphrase-file', passphraseFile]
  gpg(...passphrase, '--local-user', key, '--digest-algo', 'SHA512', ...args)
}

function gpg(...args) {
  try {
    return execFileSync('gpg', ['--batch', '--yes', '--quiet', ...args], { encoding: 'utf8', stdio: 'pipe' })
  } catch (error) {
    throw new Error(`gpg: ${String(error.stderr ?? error.message).trim()}`)
  }
}

function sha256(file) {
  return createHash('sha256').update(readFileSync(file)).digest('hex')
}
