/**
 * `npm run release`: makes every artifact of a release into release/VERSION/, signs and verifies them. Nothing is
 * published. docs/releases.md has the procedure.
 *
 *   npm run release -- [options]
 *
 *   --key ID                  the signing key, as gpg names it (or PIPECTL_RELEASE_KEY)
 *   --passphrase-file FILE    its passphrase, unless the agent of gpg asks for it
 *   --arch amd64,arm64        processors of the Debian packages (default: this machine's)
 *   --dry-run                 checks the conditions and lists the steps
 *   --rehearse                without the conditions: the build that exists, notes of "Unreleased", optionally no signature
 *   --no-sign                 with --rehearse only
 *   --compression-level N     of the Debian package (default: 6; 0 is quick and large)
 *   --directory FOLDER        instead of release/VERSION
 */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { stepsOf } from './artifacts.mjs'
import { sectionsOf } from './changelog.mjs'
import { commitId, commitTime, problemsOf } from './checks.mjs'
import { openSigner } from './signatures.mjs'

const root = path.resolve(import.meta.dirname, '../..')
let options
// Modes of packed files depend on it.
process.umask(0o022)
try {
  options = readOptions()
  await main()
} catch (error) {
  say(`error: ${error.message}`)
  process.exitCode = 1
}

function readOptions() {
  return parseArgs({
    options: {
      key: { type: 'string', default: process.env.PIPECTL_RELEASE_KEY },
      'passphrase-file': { type: 'string' },
      arch: { type: 'string', default: process.arch === 'arm64' ? 'arm64' : 'amd64' },
      'dry-run': { type: 'boolean', default: false },
      rehearse: { type: 'boolean', default: false },
      'no-sign': { type: 'boolean', default: false },
      'compression-level': { type: 'string', default: '6' },
      directory: { type: 'string' },
    },
  }).values
}

async function main() {
  const problems = options.rehearse ? [] : problemsOf(root)
  if (options['no-sign'] && !options.rehearse)
    problems.push('--no-sign is for --rehearse: a release is signed')
  if (!options['no-sign'] && options.key === undefined)
    problems.push('--key or PIPECTL_RELEASE_KEY names the signing key')
  if (problems.length > 0)
    throw new Error(`this is no release yet\n${problems.map((one) => `  - ${one}`).join('\n')}`)
  const release = releaseOfCommit()
  const steps = [
    ...(options.rehearse ? [] : [{ title: 'build from nothing', make: build }]),
    ...stepsOf(release),
  ]
  say(
    `pipectl ${release.version}, commit ${commitId(root).slice(0, 12)}, ${new Date(release.sourceDate * 1000).toISOString()}`,
  )
  if (options['dry-run']) for (const [index, { title }] of steps.entries()) say(numbered(steps, index, title))
  else await makeAll(steps, path.resolve(options.directory ?? path.join(root, 'release', release.version)))
}

function releaseOfCommit() {
  const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  const sections = sectionsOf(readFileSync(path.join(root, 'CHANGELOG.md'), 'utf8'))
  const section = sections.find((one) => one.version === (options.rehearse ? 'Unreleased' : version))
  const signer = options['no-sign']
    ? null
    : openSigner({ key: options.key, passphraseFile: options['passphrase-file'] ?? null })
  return {
    version,
    section: { ...(section ?? { date: null, text: '' }), version },
    sourceDate: commitTime(root),
    architectures: options.arch.split(','),
    compressionLevel: options['compression-level'],
    signer,
  }
}

/** Files of an earlier build, which the sources no longer have, are in no artifact. */
function build() {
  rmSync(path.join(root, 'dist'), { recursive: true, force: true })
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] })
}

/** The folder has its name only once everything in it is complete. */
async function makeAll(steps, target) {
  mkdirSync(path.dirname(target), { recursive: true })
  const making = mkdtempSync(path.join(path.dirname(target), 'making-'))
  try {
    for (const [index, { title, make }] of steps.entries()) {
      const startedMs = performance.now()
      await make(making)
      const seconds = ((performance.now() - startedMs) / 1000).toFixed(1)
      say(numbered(steps, index, `${title}: ${seconds} s`))
    }
    chmodSync(making, 0o755)
    if (existsSync(target)) rmSync(target, { recursive: true })
    renameSync(making, target)
  } finally {
    rmSync(making, { recursive: true, force: true })
  }
  for (const name of readdirSync(target).sort()) say(`  ${name}${sizeOf(path.join(target, name))}`)
  say(`made ${target}`)
}

function numbered(steps, index, words) {
  return `[${index + 1}/${steps.length}] ${words}`
}

function sizeOf(file) {
  const { size } = statSync(file)
  return statSync(file).isDirectory()
    ? '/'
    : `  ${size < 100_000 ? `${size} bytes` : `${(size / 1e6).toFixed(1)} MB`}`
}

function say(line) {
  process.stderr.write(`${line}\n`)
}
