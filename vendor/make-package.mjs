/**
 * `npm run package`: `pipectl-VERSION.tgz`, which npm and npx install without a network, a compiler or an install script. It
 * contains the native parts for Linux with glibc on x64 and arm64, with Node.js 24 and 20.
 *
 *   node vendor/make-package.mjs [FOLDER] [--arch x64,arm64]     leaves it in the folder instead of in the checkout
 *
 * For the other processor it needs Debian's cross compiler; --arch x64 makes a package without it. Two packages of one commit
 * that are made with the same tools are identical, byte for byte (reproducible.mjs).
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { sqliteAddon } from './debian/sqlite-addon.mjs'
import { tool } from './debian/toolchain.mjs'
import { normalise } from './reproducible.mjs'
import { stagePackage } from './stage-package.mjs'

const root = path.resolve(import.meta.dirname, '..')
const processors = ['x64', 'arm64']
/** By process.versions.modules: Node.js 24 and 20. */
const abis = ['137', '115']

const { values: options, positionals } = parseArgs({
  options: {
    /** As in process.arch, separated by commas. */
    arch: { type: 'string', default: processors.join(',') },
  },
  allowPositionals: true,
})
const directory = path.resolve(positionals[0] ?? root)
const wanted = options.arch.split(',')
const problem = problemOf(wanted)
if (problem !== null) {
  say(problem)
  process.exit(1)
}

const stage = mkdtempSync(path.join(os.tmpdir(), 'pipectl-package-'))
try {
  say(`1/3 compiling better-sqlite3 for ${wanted.join(' and ')}, unless that is done`)
  const targets = wanted.flatMap((arch) => abis.map((abi) => ({ arch, abi, addon: sqliteAddon(arch, abi) })))
  say('2/3 collecting the program and its dependencies')
  await stagePackage(stage, targets)
  normalise(stage, (file) => file === path.join(stage, 'bin/pipectl.js'))
  say('3/3 packing')
  const file = path.join(directory, pack(mkdtempSync(path.join(stage, '..', 'pipectl-packed-'))))
  say(
    `made ${file} (${Math.round(statSync(file).size / 2 ** 20)} MiB); start it with: npx ${file} serve --init`,
  )
} finally {
  rmSync(stage, { recursive: true, force: true })
}

function problemOf(architectures) {
  if (process.platform !== 'linux' || architectures.some((one) => !processors.includes(one)))
    return `the package is made on Linux, for one or more of --arch ${processors.join(',')}`
  const missing = architectures.find((one) => !hasCompiler(one))
  if (missing === undefined) return null
  const packages = 'apt-get install g++-aarch64-linux-gnu libc6-dev-arm64-cross'
  return `there is no compiler for ${missing}: ${packages}, or make a package without it: --arch ${process.arch}`
}

function hasCompiler(arch) {
  try {
    execFileSync(tool('g++', arch), ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Moves the file out of `folder`, which it removes. Returns the file's name. npm writes no times and no owners of its own. */
function pack(folder) {
  try {
    const args = ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder]
    execFileSync('npm', args, { cwd: stage, stdio: 'pipe' })
    const [name] = readdirSync(folder)
    cpSync(path.join(folder, name), path.join(directory, name))
    return name
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function say(line) {
  process.stderr.write(`${line}\n`)
}
