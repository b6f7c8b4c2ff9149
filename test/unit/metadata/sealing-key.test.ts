/** Where the sealing key comes from and what is rejected: each rejection one line that says what to do. */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { loadSealingKey, type SealingKeyOptions } from '../../../src/metadata/sealing-key.ts'
import { ConfigError } from '../../../src/platform/config-error.ts'
import { childFlags } from '../../support/child-flags.ts'

const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-sealing-'))
t.teardown(() => rmSync(root, { recursive: true, force: true }))

let directories = 0
function newDir(): string {
  directories += 1
  const dir = path.join(root, String(directories))
  mkdirSync(dir)
  return dir
}

function keyFile(content: string | Buffer, mode = 0o600, name = 'key'): string {
  const file = path.join(newDir(), name)
  writeFileSync(file, content)
  chmodSync(file, mode)
  return file
}

function load(options: Partial<SealingKeyOptions>): Promise<Buffer> {
  return loadSealingKey({ file: null, dataDir: root, create: false, env: {}, ...options })
}

async function refusal(t: Test, options: Partial<SealingKeyOptions>): Promise<string> {
  const error: unknown = await load(options).then(
    () => new Error('was not refused'),
    (reason: unknown) => reason,
  )
  t.ok(error instanceof ConfigError)
  const message = error instanceof Error ? error.message : ''
  t.notMatch(message, /\n/, 'one line')
  return message
}

t.test('the first start makes sealing.key in the data directory, for its owner alone', async (t) => {
  const dataDir = newDir()
  const made = await load({ dataDir, create: true })
  t.equal(made.length, 32)
  t.equal(statSync(path.join(dataDir, 'sealing.key')).mode & 0o777, 0o600)
  t.strictSame(readdirSync(dataDir), ['sealing.key'], 'no temporary file stays')
  t.strictSame(await load({ dataDir, create: false }), made, 'later starts read it')
  t.strictSame(await load({ dataDir, create: true }), made, 'it is never replaced')
  t.notSame(await load({ dataDir: newDir(), create: true }), made)
})

t.test('processes that set up at once take one and the same key', async (t) => {
  const dataDir = newDir()
  const go = path.join(newDir(), 'go')
  const script = new URL('./sealing-key-child.ts', import.meta.url).pathname
  const children = Array.from({ length: 4 }, () =>
    spawn(process.execPath, [...childFlags, script, dataDir, go], { stdio: ['ignore', 'pipe', 'inherit'] }),
  )
  const lines = children.map((child) => createInterface(child.stdout)[Symbol.asyncIterator]())
  for (const line of lines) t.equal((await line.next()).value, 'ready')
  writeFileSync(go, '')
  const keys = await Promise.all(lines.map(async (line) => (await line.next()).value))
  t.equal(new Set(keys).size, 1)
  t.equal(keys[0], (await load({ dataDir })).toString('hex'))
})

t.test('the key is 32 bytes, raw or as base64 with or without padding and newline', async (t) => {
  const key = randomBytes(32)
  for (const content of [
    key,
    key.toString('base64'),
    `${key.toString('base64')}\n`,
    key.toString('base64url'),
  ]) {
    t.strictSame(await load({ file: keyFile(content) }), key)
  }
})

t.test('order: the configured file, the systemd credential, the data directory', async (t) => {
  const configured = randomBytes(32)
  const credential = randomBytes(32)
  const dataDir = newDir()
  const own = await load({ dataDir, create: true })
  const credentials = path.dirname(keyFile(credential, 0o440, 'pipectl-sealing-key'))
  const env = { CREDENTIALS_DIRECTORY: credentials }
  t.strictSame(await load({ file: keyFile(configured), dataDir, env }), configured)
  t.strictSame(await load({ dataDir, env }), credential, 'group bits of a credential are its ACL mask')
  t.strictSame(await load({ dataDir, env: { CREDENTIALS_DIRECTORY: newDir() } }), own, 'no such credential')
  const fresh = newDir()
  await load({ dataDir: fresh, create: true, env })
  t.equal(existsSync(path.join(fresh, 'sealing.key')), false, 'a credential makes a key of our own needless')
})

t.test('a key that others can read is rejected, with the command that corrects it', async (t) => {
  for (const mode of [0o644, 0o640, 0o660, 0o604]) {
    const file = keyFile(randomBytes(32), mode)
    t.equal(
      await refusal(t, { file }),
      `secrets.key_file: ${file} can be read by other users (mode 0${mode.toString(8)}); run \`chmod 600 ${file}\``,
    )
  }
  const credentials = path.dirname(keyFile(randomBytes(32), 0o444, 'pipectl-sealing-key'))
  t.match(await refusal(t, { env: { CREDENTIALS_DIRECTORY: credentials } }), /can be read by other users/)
  t.ok(await load({ file: keyFile(randomBytes(32), 0o400) }))
})

t.test('a key of another size or spelling is rejected and not shown', async (t) => {
  const hex = randomBytes(32).toString('hex')
  for (const content of [
    '',
    'secret-passphrase',
    hex,
    randomBytes(31),
    randomBytes(33),
    Buffer.alloc(44, '!'),
  ]) {
    const message = await refusal(t, { file: keyFile(content) })
    t.match(message, /must contain 32 bytes, raw or as base64/)
    if (content.length > 0) t.notOk(message.includes(content.toString()))
  }
})

t.test('a missing key is an error and is not made where it must not be', async (t) => {
  const dataDir = newDir()
  t.match(await refusal(t, { dataDir }), /sealing\.key does not exist; put back the key/)
  t.equal(existsSync(path.join(dataDir, 'sealing.key')), false)
  t.match(
    await refusal(t, { file: path.join(dataDir, 'nowhere'), create: true }),
    /^secrets\.key_file: .* does not exist/,
  )
  t.match(await refusal(t, { file: dataDir }), /cannot be read \(EISDIR\)/)
  t.match(
    await refusal(t, { dataDir: path.join(dataDir, 'nowhere'), create: true }),
    /cannot be created \(ENOENT\)/,
  )
  const readable = keyFile(randomBytes(32))
  t.ok(readFileSync(readable).length === 32)
})
