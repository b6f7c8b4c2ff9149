/**
 * A release, made by the command of docs/releases.md as a rehearsal, and verified by the commands there with nothing but the
 * public key. The repository for apt is tested where the package is installed: deb.test.ts.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import os from 'node:os'
import path from 'node:path'
import { gunzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { newestFormat, oldestFormat } from '../../src/metadata/migrations.ts'
import { sectionBlocks } from '../support/guide-sections.ts'
import { makeReleaseKey, type ReleaseKey } from '../support/release-key.ts'

const project = new URL('../../', import.meta.url).pathname
const { version } = JSON.parse(readFileSync(path.join(project, 'package.json'), 'utf8'))
const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64'
const key = makeReleaseKey(t)
const made = path.join(t.testdir(), 'made')
const options = ['--key', key.id, '--passphrase-file', key.passphraseFile, '--directory', made]
release('--rehearse', '--compression-level', '0', ...options)

function release(...args: string[]): void {
  const script = path.join(project, 'vendor/release/main.mjs')
  execFileSync(process.execPath, [script, ...args], { env: { ...process.env, ...key.env }, stdio: 'pipe' })
}

function read(name: string): string {
  return readFileSync(path.join(made, name), 'utf8')
}

function sha256(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex')
}

/** A copy of the release, as somebody has downloaded it. */
function download(t: Test): string {
  const folder = path.join(t.testdir(), 'downloaded')
  cpSync(made, folder, { recursive: true })
  return folder
}

/** The guide's commands in that folder, with an empty keyring. Returns the exit code and what they print. */
function verify(t: Test, folder: string): { status: number | null; output: string } {
  const home = mkdtempSync(path.join(os.tmpdir(), 'pipectl-verify-'))
  t.teardown(() => rmSync(home, { recursive: true, force: true }))
  const [block = ''] = sectionBlocks('docs/releases.md', 'Verifying a download')
  const { status, stdout, stderr } = spawnSync('sh', ['-ec', block], {
    cwd: folder,
    env: { ...process.env, GNUPGHOME: home },
    encoding: 'utf8',
  })
  return { status, output: stdout + stderr }
}

t.test('every artifact is there, with its checksum', async (t) => {
  const names = readdirSync(made)
  const expected = [
    ...['SHA256SUMS', 'SHA256SUMS.asc', 'apt', 'management-v1.openapi.yaml', 'pipectl-release-key.asc'],
    ...[`pipectl-${version}.cdx.json`, `pipectl_${version}-1_${architecture}.deb`],
    ...['release-notes.md', 'releases.json', `pipectl-client-${version}.tgz`],
    ...[`pipectl_client-${version}-py3-none-any.whl`, `pipectl_client-${version}.tar.gz`],
  ]
  for (const name of expected) t.ok(names.includes(name), name)
  t.ok(
    names.some((name) => name.startsWith(`pipectl-${version}`) && name.endsWith('.tgz')),
    'the npm package',
  )
  const unlisted = ['SHA256SUMS', 'SHA256SUMS.asc', 'apt', 'pipectl-release-key.asc']
  const sums = read('SHA256SUMS').trimEnd().split('\n')
  t.same(
    sums.map((line) => line.split('  ')[1]),
    names.filter((name) => !unlisted.includes(name)).sort(),
  )
  for (const line of sums) {
    const [sum, name = ''] = line.split('  ')
    t.equal(sha256(path.join(made, name)), sum, name)
  }
})

t.test('the notes are the section of the changelog, without links into the repository', async (t) => {
  const notes = read('release-notes.md')
  t.match(notes, new RegExp(`^# pipectl ${version.replaceAll('.', '\\.')}\n`))
  t.notMatch(notes, /\]\((?!https?:)/)
  t.notMatch(notes, /^## \[/m)
})

t.test('releases.json lists this release and the earlier ones', async (t) => {
  const list = JSON.parse(read('releases.json'))
  t.match(list, { format: 1, releases: [{ version, notes: 'release-notes.md' }] })
  const [first] = list.releases
  t.equal(first.data_formats.metadata, newestFormat)
  for (const { version: earlier, data_formats: formats } of list.releases.slice(1))
    if (earlier === first.minimum_upgrade_from) t.ok(formats.metadata >= oldestFormat, earlier)
  t.equal(new Set(list.releases.map((one: { version: string }) => one.version)).size, list.releases.length)
})

t.test('a download is verified by the commands of the guide', async (t) => {
  const { status, output } = verify(t, download(t))
  t.equal(status, 0, output)
  t.match(output, /Good signature from "pipectl releases of a test/)
  t.match(output, new RegExp(`pipectl_${version}-1_${architecture}\\.deb: OK`))
})

t.test('negative control: a changed artifact, list or key is rejected', async (t) => {
  const changes: [what: string, change: (folder: string) => void, message: RegExp][] = [
    [
      'an artifact',
      (folder) => flip(path.join(folder, `pipectl_${version}-1_${architecture}.deb`)),
      new RegExp(`pipectl_${version}-1_${architecture}\\.deb: FAILED`),
    ],
    [
      'the list of checksums',
      (folder) => {
        const file = path.join(folder, 'SHA256SUMS')
        writeFileSync(
          file,
          readFileSync(file, 'utf8').replace(/^./, (digit) => (digit === '0' ? '1' : '0')),
        )
      },
      /BAD signature/,
    ],
    [
      'a key of another person',
      (folder) => writeFileSync(path.join(folder, 'pipectl-release-key.asc'), publicKey(t)),
      /No public key/,
    ],
  ]
  for (const [what, change, message] of changes)
    await t.test(what, async (t) => {
      const folder = download(t)
      change(folder)
      const { status, output } = verify(t, folder)
      t.ok(status !== null && status > 0, `exit code ${status}`)
      t.match(output, message)
    })
})

/** Changes one bit in the middle. */
function flip(file: string): void {
  const content = readFileSync(file)
  const at = content.length >> 1
  content[at] = (content[at] ?? 0) ^ 1
  writeFileSync(file, content)
}

function publicKey(t: Test): string {
  const other: ReleaseKey = makeReleaseKey(t)
  const env = { ...process.env, ...other.env }
  return execFileSync('gpg', ['--armor', '--export', other.id], { env, encoding: 'utf8' })
}

interface Bill {
  components: { name: string; version: string; hashes?: unknown[]; purl: string }[]
  dependencies: { ref: string; dependsOn: string[] }[]
}

interface Validator {
  addSchema(schema: unknown, name: string): void
  addFormat(name: string, format: true): void
  compile(schema: unknown): ((value: unknown) => boolean) & { errors?: unknown }
}

/** ajv with the schemas of CycloneDX. */
function billValidator() {
  const require = createRequire(import.meta.url)
  const Ajv: { default: new (options: object) => Validator } = require('ajv')
  const addFormats: { default(ajv: Validator): void } = require('ajv-formats')
  const file = path.join(project, 'test/support/fixtures/cyclonedx-1.5.json.gz')
  const [bill, signature, licenses] = JSON.parse(gunzipSync(readFileSync(file)).toString('utf8'))
  const ajv = new Ajv.default({ strict: false, validateFormats: true })
  addFormats.default(ajv)
  // ajv-formats does not know it.
  ajv.addFormat('iri-reference', true)
  ajv.addSchema(signature, 'http://cyclonedx.org/schema/jsf-0.82.SNAPSHOT.schema.json')
  ajv.addSchema(licenses, 'http://cyclonedx.org/schema/spdx.SNAPSHOT.schema.json')
  return ajv.compile(bill)
}

t.test('the bill of materials is valid CycloneDX and has every package that is shipped', async (t) => {
  const text = read(`pipectl-${version}.cdx.json`)
  const validate = billValidator()
  t.equal(validate(JSON.parse(text)), true, JSON.stringify(validate.errors))
  t.equal(
    validate({ ...JSON.parse(text), components: [{ name: 'without a type' }] }),
    false,
    'the validator rejects',
  )

  const { components, dependencies }: Bill = JSON.parse(text)
  const listed = new Set(components.map((one) => `${one.name} ${one.version}`))
  const deb = path.join(made, `pipectl_${version}-1_${architecture}.deb`)
  const tree = t.testdir()
  execFileSync('dpkg-deb', ['-x', deb, tree])
  const licenses = gunzipSync(readFileSync(path.join(tree, 'usr/share/doc/pipectl/THIRD-PARTY-LICENSES.gz')))
  const shipped = [...licenses.toString('utf8').matchAll(/^(\S+ \d\S*) \([\w.-]+\)$/gm)].map(
    ([, name = '']) => name,
  )
  t.ok(shipped.length > 100, `${shipped.length} packages`)
  for (const name of shipped) t.ok(listed.has(name), name)
  const { runtime } = await import(path.join(project, 'vendor/debian/node-runtime.mjs'))
  t.ok(listed.has(`node ${runtime.version}`))
  t.ok(components.some(({ name }) => name === 'sqlite'))
  for (const { name, purl, hashes } of components) {
    t.match(purl, /^pkg:/, name)
    if (!['sqlite'].includes(name)) t.ok(hashes?.length, `${name} has a checksum`)
  }
  const references = new Set(dependencies.map(({ ref }) => ref))
  for (const { ref, dependsOn } of dependencies)
    for (const other of dependsOn) t.ok(references.has(other), `${ref} depends on ${other}`)
})

t.test('the bill of materials and the repository for apt are the same each time', async (t) => {
  const again = path.join(t.testdir(), 'again')
  const { billOfMaterials } = await import(path.join(project, 'vendor/release/sbom.mjs'))
  const { makeAptRepository } = await import(path.join(project, 'vendor/release/apt-repository.mjs'))
  const { commitTime } = await import(path.join(project, 'vendor/release/checks.mjs'))
  const { licensesIn } = await import(path.join(project, 'vendor/release/artifacts.mjs'))
  const sourceDate = commitTime(project)
  const bill = billOfMaterials({ version, licenses: licensesIn(made), sourceDate })
  t.equal(bill, read(`pipectl-${version}.cdx.json`))
  const debs = [path.join(made, `pipectl_${version}-1_${architecture}.deb`)]
  makeAptRepository(again, { debs, sourceDate, signer: null })
  const name = 'dists/stable/Release'
  t.equal(readFileSync(path.join(again, name), 'utf8'), read(`apt/${name}`))
})

t.test('apt prefers the package to the other program of this name, which Debian 13 has', async (t) => {
  const index = read(`apt/dists/stable/main/binary-${architecture}/Packages`)
  const [, own = ''] = /^Package: pipectl\nVersion: (\S+)$/m.exec(index) ?? []
  t.equal(own, `1:${version.replace('-', '~')}-1`)
  t.equal(spawnSync('dpkg', ['--compare-versions', own, 'gt', '0.5.1-1']).status, 0)
})

t.test('a commit is released only as what it says it is', async (t) => {
  const { problemsOf } = await import(path.join(project, 'vendor/release/checks.mjs'))
  const root = t.testdir()
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=test', '-c', 'user.email=test@pipectl.example', ...args], {
      cwd: root,
      stdio: 'pipe',
    })
  const write = (name: string, text: string) => writeFileSync(path.join(root, name), text)
  const changelog = '# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-12-01\n\n- A change.\n'
  git('init', '--quiet')
  write('package.json', '{"version":"1.2.0"}')
  write('CHANGELOG.md', changelog)
  git('add', '.')
  git('commit', '--quiet', '-m', 'a release')
  t.same(problemsOf(root), [], 'a commit with everything')

  write('new-file', '')
  t.match(problemsOf(root), [/tree differs from the commit: \?\? new-file/])
  rmSync(path.join(root, 'new-file'))
  const commit = (text: string) => {
    write('CHANGELOG.md', text)
    git('commit', '--quiet', '-a', '-m', 'another changelog')
    return problemsOf(root)
  }
  t.match(commit(changelog.replace('1.2.0', '1.1.0')), [/no section "## \[1\.2\.0\] - DATE"/])
  t.match(commit(changelog.replace(']\n\n## [1', ']\n\n- A late change.\n\n## [1')), [/unreleased changes/])
  t.match(commit(changelog.replace('- A change.', '')), [/section 1\.2\.0 .* is empty/])
  t.same(commit(changelog), [])
  mkdirSync(path.join(root, 'sdk/js'), { recursive: true })
  write('sdk/js/package.json', '{ "version": "1.1.0" }')
  git('add', '.')
  t.match(commit(changelog), [/sdk\/js\/package\.json has version 1\.1\.0, but package\.json has 1\.2\.0/])
  write('sdk/js/package.json', '{ "version": "1.2.0" }')
  t.same(commit(changelog), [])
  git('tag', 'v1.3.0')
  t.match(problemsOf(root), [/tagged v1\.3\.0, but package\.json has version 1\.2\.0/])
  git('tag', '--delete', 'v1.3.0')
  git('tag', 'v1.2.0')
  t.same(problemsOf(root), [], 'with its own tag')
  git('commit', '--quiet', '--allow-empty', '-m', 'later')
  t.match(problemsOf(root), [/tag v1\.2\.0 is on another commit/])
})
