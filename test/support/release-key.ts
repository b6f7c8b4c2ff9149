/** A key that signs releases in tests: made for one test, in a keyring of its own, with a passphrase. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'

export interface ReleaseKey {
  /** What gpg calls it. */
  id: string
  passphraseFile: string
  /** For commands that sign: the keyring is named by GNUPGHOME. */
  env: { GNUPGHOME: string }
}

/** gpg's agent for this keyring ends with the test. */
export function makeReleaseKey(t: Test): ReleaseKey {
  // The path of the agent's socket must be short.
  const home = mkdtempSync(path.join(os.tmpdir(), 'pipectl-key-'))
  const env = { GNUPGHOME: home }
  const run = (command: string, ...args: string[]) =>
    execFileSync(command, args, { env: { ...process.env, ...env }, stdio: 'pipe' })
  t.teardown(() => {
    run('gpgconf', '--kill', 'all')
    rmSync(home, { recursive: true, force: true })
  })
  const id = 'pipectl releases of a test <releases@pipectl.example>'
  const passphraseFile = path.join(home, 'passphrase')
  writeFileSync(passphraseFile, 'the passphrase of a test\n', { mode: 0o600 })
  const passphrase = ['--pinentry-mode', 'loopback', '--passphrase-file', passphraseFile]
  run('gpg', '--batch', ...passphrase, '--quick-generate-key', id, 'ed25519', 'sign', 'never')
  return { id, passphraseFile, env }
}
