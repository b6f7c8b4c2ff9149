/**
 * vendor/install.sh: what it installs from a release on a server or in a folder, and what it rejects before anything is
 * installed. The packages are small ones with the names of the real ones: what they contain makes no difference here.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import { finished } from '../support/cli.ts'
import { freshDebian } from '../support/debian-root.ts'

const script = new URL('../../vendor/install.sh', import.meta.url).pathname
const tarball = 'pipectl-9.9.9.tgz'
const folder = t.testdir()
const release = path.join(folder, 'release')
const keyring = { ...process.env, GNUPGHOME: path.join(folder, 'keys') }
const keyFile = path.join(folder, 'pipectl-release-key.asc')
makeRelease()

function makeRelease(): void {
  const source = path.join(folder, 'source')
  mkdirSync(source)
  mkdirSync(release)
  const manifest = { name: 'pipectl', version: '9.9.9', bin: { pipectl: 'pipectl.js' } }
  writeFileSync(path.join(source, 'package.json'), JSON.stringify(manifest))
  writeFileSync(path.join(source, 'pipectl.js'), '#!/usr/bin/env node\nconsole.log("9.9.9")\n')
  execFileSync('npm', ['pack', '--silent', '--pack-destination', release], { cwd: source, stdio: 'pipe' })
  writeChecksums([tarball])
  mkdirSync(keyring.GNUPGHOME, { mode: 0o700 })
  for (const name of ['releases', 'stranger'])
    gpg('--quick-generate-key', `${name}@pipectl.example`, 'ed25519', 'sign', 'never')
  writeFileSync(keyFile, gpg('--armor', '--export', 'releases@pipectl.example'))
  t.teardown(() => execFileSync('gpgconf', ['--kill', 'all'], { env: keyring, stdio: 'pipe' }))
}

function gpg(...args: string[]): string {
  const options = ['--batch', '--yes', '--quiet', '--pinentry-mode', 'loopback', '--passphrase', '']
  return execFileSync('gpg', [...options, ...args], { env: keyring, encoding: 'utf8', stdio: 'pipe' })
}

function writeChecksums(names: readonly string[], where = release): void {
  const sum = (name: string) =>
    createHash('sha256')
      .update(readFileSync(path.join(where, name)))
      .digest('hex')
  writeFileSync(path.join(where, 'SHA256SUMS'), names.map((name) => `${sum(name)}  ${name}\n`).join(''))
}

function sign(where: string, by = 'releases@pipectl.example'): void {
  const sums = path.join(where, 'SHA256SUMS')
  gpg('--local-user', by, '--armor', '--detach-sign', '--output', `${sums}.asc`, sums)
}

let folders = 0
function newFolder(): string {
  folders += 1
  const one = path.join(folder, `made-${folders}`)
  mkdirSync(one)
  return one
}

/** A copy of the release, changed. */
function changed(change: (where: string) => void): string {
  const where = newFolder()
  cpSync(release, where, { recursive: true })
  change(where)
  return where
}

/** Runs the script for the npm package, with a prefix of its own. Returns whether something was installed. */
async function install(args: readonly string[], env: Record<string, string> = {}) {
  const home = newFolder()
  const child = spawn('sh', [script, '--npm', ...args], {
    env: {
      ...{ PATH: process.env.PATH, HOME: home, npm_config_prefix: path.join(home, 'prefix') },
      ...{ npm_config_offline: 'true', npm_config_cache: path.join(home, 'cache'), ...env },
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const result = await finished(child)
  return { ...result, isInstalled: existsSync(path.join(home, 'prefix/bin/pipectl')) }
}

async function serve(t: Test, where: string): Promise<string> {
  const server = createServer((request, response) => {
    const file = path.join(where, path.basename(request.url ?? ''))
    if (existsSync(file)) response.end(readFileSync(file))
    else response.writeHead(404).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/pipectl/`
}

t.test('shellcheck finds nothing', async (t) => {
  t.equal(spawnSync('shellcheck', [script], { encoding: 'utf8' }).stdout, '')
})

t.test('from a server, with its checksum; --dry-run installs nothing', async (t) => {
  const url = await serve(t, release)
  const dry = await install(['--dry-run', url])
  t.equal(dry.code, 0, dry.stderr)
  t.match(dry.stderr, /would install pipectl-9\.9\.9\.tgz/)
  t.notOk(dry.isInstalled)
  const { code, stderr, isInstalled } = await install([], { PIPECTL_BASE_URL: url })
  t.equal(code, 0, stderr)
  t.match(stderr, 'the release has no signature: only its checksum is verified')
  t.match(stderr, `installed ${tarball}`)
  t.ok(isInstalled)
})

t.test('with a signature: verified by the key of the release', async (t) => {
  const where = changed((one) => sign(one))
  const { code, stderr, isInstalled } = await install([`file://${where}`], { PIPECTL_RELEASE_KEY: keyFile })
  t.equal(code, 0, stderr)
  t.match(stderr, /the signature is good: \w+ releases@pipectl\.example/)
  t.ok(isInstalled)
  const unknown = await install(['--version', '9.9.9', `file://${where}`])
  t.equal(unknown.code, 0, unknown.stderr)
  t.match(unknown.stderr, 'your keyring does not have the key of the release')
})

const flip = (file: string) => {
  const bytes = readFileSync(file)
  bytes[bytes.length - 9] = (bytes[bytes.length - 9] ?? 0) ^ 1
  writeFileSync(file, bytes)
}
const rejected: [
  name: string,
  change: (where: string) => void,
  error: RegExp,
  env?: Record<string, string>,
][] = [
  ['a changed package', (where) => flip(path.join(where, tarball)), /is not the file that SHA256SUMS names/],
  [
    'a package that is cut off',
    (where) => writeFileSync(path.join(where, tarball), 'half'),
    /is not the file/,
  ],
  [
    'no checksum of it',
    (where) => writeFileSync(path.join(where, 'SHA256SUMS'), ''),
    /no checksum of a package/,
  ],
  ['no SHA256SUMS', (where) => rmSync(path.join(where, 'SHA256SUMS')), /cannot get .*SHA256SUMS/],
  ['no package', (where) => rmSync(path.join(where, tarball)), /cannot get .*pipectl-9\.9\.9\.tgz/],
  [
    'checksums that were changed after they were signed',
    (where) => {
      sign(where)
      flip(path.join(where, tarball))
      writeChecksums([tarball], where)
    },
    /the signature of SHA256SUMS is wrong/,
    { PIPECTL_RELEASE_KEY: keyFile },
  ],
  [
    'the signature of a stranger',
    (where) => sign(where, 'stranger@pipectl.example'),
    /the signature of SHA256SUMS is wrong/,
    { PIPECTL_RELEASE_KEY: keyFile },
  ],
  ['no signature, with a key', () => {}, /has no SHA256SUMS\.asc/, { PIPECTL_RELEASE_KEY: keyFile }],
]
for (const [name, change, error, env] of rejected)
  t.test(`rejected, and nothing is installed: ${name}`, async (t) => {
    const url = await serve(t, changed(change))
    const { code, stderr, isInstalled } = await install([url], env)
    t.equal(code, 1)
    t.match(stderr, error)
    t.match(stderr, /^error: /m)
    t.notOk(isInstalled)
  })

t.test('wrong usage: exit code 2', async (t) => {
  for (const [args, error] of [
    [[], /no address of a release/],
    [['ftp://127.0.0.1/'], /is not an address/],
    [['--force'], /no option --force/],
    [['--version', '1;2', 'file:///x'], /is not a version/],
  ] as const)
    t.match(await install(args), { code: 2, stderr: error, isInstalled: false })
  const absent = await install(['--version', '1.0.0', `file://${release}`])
  t.match(absent, { code: 1, stderr: /no checksum of a package for this machine \(1\.0\.0, npm\)/ })
})

t.test('on Debian it installs the Debian package, with apt, and needs no curl from a folder', async (t) => {
  const root = freshDebian(t, 'trixie')
  const processor = execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim()
  const tree = path.join(t.testdir(), 'tree')
  mkdirSync(path.join(tree, 'DEBIAN'), { recursive: true })
  const control = [
    ...['Package: pipectl', 'Version: 9.9.9-1', `Architecture: ${processor}`],
    ...['Maintainer: nobody <nobody@pipectl.example>', 'Description: small', ''],
  ]
  writeFileSync(path.join(tree, 'DEBIAN/control'), control.join('\n'))
  const where = path.join(root.directory, 'srv')
  mkdirSync(path.join(tree, 'usr/share/doc/pipectl'), { recursive: true })
  writeFileSync(path.join(tree, 'usr/share/doc/pipectl/README'), 'small\n')
  const name = `pipectl_9.9.9-1_${processor}.deb`
  execFileSync('dpkg-deb', ['--root-owner-group', '--build', tree, path.join(where, name)], { stdio: 'pipe' })
  cpSync(script, path.join(where, 'install.sh'))
  cpSync(path.join(release, tarball), path.join(where, tarball))
  writeChecksums([tarball, name], where)
  const { code, stderr } = await root.run(['sh', '/srv/install.sh', 'file:///srv'], {
    env: { HOME: os.homedir() },
  })
  t.equal(code, 0, stderr)
  t.match(stderr, `installed ${name}`)
  t.ok(existsSync(path.join(root.directory, 'usr/share/doc/pipectl/README')))

  flip(path.join(where, name))
  const again = await root.run(['sh', '/srv/install.sh', 'file:///srv'])
  t.match(again, { code: 1, stderr: /is not the file that SHA256SUMS names/ })
})
