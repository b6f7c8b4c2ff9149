/**
 * `npm run package:deb`: a .deb that needs nothing but a Debian 12 or newer: the program, its dependencies and its Node.js,
 * which is not the one that runs this (node-runtime.mjs), for this processor or another.
 *
 * The binding of uWebSockets asks for a newer C library than the rest: on Debian 12 it does not load, and HTTP is served by
 * node:http. So it is no dependency of the package, but recommended (libraries.mjs).
 *
 *   /usr/lib/pipectl             the program as `npm run package` packs it, and `node`, which alone runs it
 *   /usr/bin/pipectl             starts the one with the other
 *   /usr/lib/systemd/system      the units (service-files.mjs makes them of systemd/)
 *   /etc/pipectl/pipectl.toml    the settings, a conffile
 *   /usr/share/…                 manual, completions, documentation, copyright
 *
 * Two builds of one commit are the same file, byte for byte: every time is SOURCE_DATE_EPOCH (default: the commit's),
 * every mode is normalised, owners are root.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { normalise, sourceDate } from '../reproducible.mjs'
import { stagePackage } from '../stage-package.mjs'
import { copyright } from './copyright.mjs'
import { librariesOf } from './libraries.mjs'
import { nodeRelease, runtime } from './node-runtime.mjs'
import { packagedBackupUnit, packagedConfig, packagedUnit } from './service-files.mjs'
import { sqliteAddon } from './sqlite-addon.mjs'
import { tool } from './toolchain.mjs'

const root = path.resolve(import.meta.dirname, '../..')
const manifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
/** Maps Debian's name to that of process.arch. */
const processors = { amd64: 'x64', arm64: 'arm64' }
const home = 'usr/lib/pipectl'
const documentation = 'usr/share/doc/pipectl'
const maintainer = `${process.env.DEBFULLNAME ?? 'pipectl maintainers'} <${process.env.DEBEMAIL ?? 'maintainers@pipectl.example'}>`

const { values: options } = parseArgs({
  options: {
    /** Debian's revision: a package of the same program with a higher one is an upgrade. */
    revision: { type: 'string', default: '1' },
    /** Debian's name of the processor. */
    arch: {
      type: 'string',
      default: Object.keys(processors).find((one) => processors[one] === process.arch),
    },
    /** The level of xz. 0 is quick and takes half as much space again. */
    'compression-level': { type: 'string', default: '6' },
    /** Where the file goes. */
    directory: { type: 'string', default: root },
  },
})
const versionOfFile = `${manifest.version.replace('-', '~')}-${options.revision}`
/**
 * Debian 13 has another program in a package of this name, in version 0.5.1. Without the epoch, `1:`, apt takes it for an
 * upgrade of an earlier pipectl, and replaces the daemon with it.
 */
const version = `1:${versionOfFile}`
const architecture = options.arch
const arch = processors[architecture]
if (process.platform !== 'linux' || arch === undefined) {
  say(`the package is made on Linux, for one of --arch ${Object.keys(processors).join(', ')}`)
  process.exit(1)
}

const stage = mkdtempSync(path.join(os.tmpdir(), 'pipectl-deb-'))
try {
  say(`1/4 fetching Node.js ${runtime.version}, and compiling better-sqlite3 for it unless that is done`)
  const release = nodeRelease(arch)
  const addon = sqliteAddon(arch)
  say('2/4 collecting the program and its dependencies')
  await stageProgram({ arch, abi: runtime.abi, addon })
  copyFileSync(path.join(release, 'bin/node'), at(home, 'node'))
  copyFileSync(path.join(release, 'LICENSE'), at('LICENSE.node'))
  stripBinaries()
  say('3/4 adding unit, settings, manual, completions, documentation')
  stageService()
  stageDocumentation()
  stageControl()
  normalise(stage, isProgram)
  say('4/4 packing')
  const file = path.resolve(options.directory, `pipectl_${versionOfFile}_${architecture}.deb`)
  pack(file)
  say(`made ${file}; install it with: apt-get install ${path.isAbsolute(file) ? file : `./${file}`}`)
} finally {
  rmSync(stage, { recursive: true, force: true })
}

function say(line) {
  process.stderr.write(`${line}\n`)
}

function at(...names) {
  return path.join(stage, ...names)
}

function write(name, content) {
  mkdirSync(path.dirname(at(name)), { recursive: true })
  writeFileSync(at(name), content)
}

/** Without a name and a time in its header. */
function writeCompressed(name, content) {
  write(`${name}.gz`, gzipSync(content, { level: 9 }))
}

function run(command, args, env = {}) {
  return execFileSync(command, args, {
    cwd: stage,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
    stdio: 'pipe',
    env: { ...process.env, ...env },
  })
}

/**
 * Files that only people read go where Debian's documentation is; files that the package has in a place of its own
 * are left out.
 */
async function stageProgram(target) {
  mkdirSync(at(home), { recursive: true })
  mkdirSync(at(documentation), { recursive: true })
  await stagePackage(at(home), [target])
  for (const item of ['README.md', 'docs', 'examples', 'monitoring'])
    renameSync(at(home, item), at(documentation, item))
  for (const item of ['systemd', 'config', 'LICENSE']) rmSync(at(home, item), { recursive: true })
  write('usr/bin/pipectl', '#!/bin/sh\nexec /usr/lib/pipectl/node /usr/lib/pipectl/bin/pipectl.js "$@"\n')
}

/** Symbols are for debuggers. The binding of uWebSockets stays as it is: its loader compares its checksum. */
function stripBinaries() {
  for (const file of binaries().needed)
    run(tool('strip', arch), ['--strip-unneeded', '--remove-section=.comment', file])
}

function binaries() {
  const bindings = files(at(home)).filter((file) => file.endsWith('.node'))
  const isOptional = (file) => path.basename(file).startsWith('uws_')
  const optional = bindings.filter(isOptional)
  if (optional.length === 0) throw new Error('no binding of uWebSockets for this Node.js: npm ci brings it')
  return {
    needed: [at(home, 'node'), ...bindings.filter((file) => !isOptional(file)).sort()],
    optional,
  }
}

function stageService() {
  const units = 'usr/lib/systemd/system'
  write(`${units}/pipectl.service`, packagedUnit(source('systemd/pipectl.service')))
  write(`${units}/pipectl-backup.service`, packagedBackupUnit(source('systemd/pipectl-backup.service')))
  write(`${units}/pipectl-backup.timer`, source('systemd/pipectl-backup.timer'))
  write('etc/pipectl/pipectl.toml', packagedConfig(source('config/pipectl.toml')))
  const completions = {
    bash: 'usr/share/bash-completion/completions/pipectl',
    zsh: 'usr/share/zsh/vendor-completions/_pipectl',
    fish: 'usr/share/fish/vendor_completions.d/pipectl.fish',
  }
  for (const [shell, name] of Object.entries(completions))
    write(name, run(process.execPath, [at(home, 'bin/pipectl.js'), 'completion', shell]))
}

function stageDocumentation() {
  writeCompressed(`${documentation}/changelog`, taken(at(home, 'CHANGELOG.md')))
  writeCompressed(`${documentation}/changelog.Debian`, packageChangelog())
  const licenses = taken(at(home, 'THIRD-PARTY-LICENSES'))
  writeCompressed(`${documentation}/THIRD-PARTY-LICENSES`, licenses)
  write(`${documentation}/copyright`, copyright(licenses))
  writeCompressed(`${documentation}/LICENSE.node`, taken(at('LICENSE.node')))
  const manual = at(home, 'dist/man/pipectl.1')
  if (existsSync(manual)) writeCompressed('usr/share/man/man1/pipectl.1', taken(manual))
  write('usr/share/lintian/overrides/pipectl', source('vendor/debian/lintian-overrides'))
}

function taken(file) {
  const text = readFileSync(file, 'utf8')
  rmSync(file)
  return text
}

function packageChangelog() {
  const date = new Date(sourceDate * 1000).toUTCString().replace('GMT', '+0000')
  return `pipectl (${version}) unstable; urgency=medium\n\n  * pipectl ${manifest.version}; changelog.gz says what changed.\n\n -- ${maintainer}  ${date}\n`
}

function source(name) {
  return readFileSync(path.join(root, name), 'utf8')
}

function stageControl() {
  const installed = files(stage).filter((file) => !file.startsWith(at('DEBIAN')))
  const size = installed.reduce((sum, file) => sum + Math.max(1, Math.ceil(lstatSync(file).size / 1024)), 0)
  const { needed, optional } = binaries()
  const lines = [
    'Package: pipectl',
    `Version: ${version}`,
    `Architecture: ${architecture}`,
    `Maintainer: ${maintainer}`,
    'Section: net',
    'Priority: optional',
    `Installed-Size: ${size}`,
    `Depends: ${librariesOf(needed)}, adduser`,
    `Recommends: ${librariesOf(optional)}`,
    'Description: durable HTTP ingest for JSON records, delivered in order',
    ' pipectl takes JSON records over HTTP from browsers, apps and devices, writes',
    ' them to a log on disk, answers 202 once it is synced, and delivers them in',
    ' order to PostgreSQL and MySQL tables, object stores, HTTP endpoints and',
    ' consumers that poll.',
    ' .',
    ` The package brings its own Node.js (${runtime.version}). With the C library of Debian 13`,
    ' or newer HTTP is served by uWebSockets, with an older one by node:http, which',
    ' is slower. Where systemd runs, the daemon is started as user pipectl, with its',
    ' data in /var/lib/pipectl.',
  ]
  write('DEBIAN/md5sums', installed.map(checksum).sort(byName).join(''))
  write('DEBIAN/control', `${lines.join('\n')}\n`)
  write('DEBIAN/conffiles', '/etc/pipectl/pipectl.toml\n')
  for (const name of ['preinst', 'postinst', 'prerm', 'postrm']) {
    write(`DEBIAN/${name}`, source(`vendor/debian/${name}`).replaceAll('@VERSION@', version))
  }
}

function checksum(file) {
  return `${createHash('md5').update(readFileSync(file)).digest('hex')}  ${path.relative(stage, file)}\n`
}

function byName(one, other) {
  return one.slice(34) < other.slice(34) ? -1 : 1
}

/** Every file below, no folders. */
function files(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => path.join(entry.parentPath, entry.name))
}

function isProgram(file) {
  const name = path.relative(stage, file)
  return name === `${home}/node` || name === 'usr/bin/pipectl' || /^DEBIAN\/p/.test(name)
}

/** With one number of threads everywhere: xz cuts the archive into other blocks for one than for several. */
function pack(file) {
  const compression = ['-Zxz', `-z${options['compression-level']}`, '--threads-max=2']
  run('dpkg-deb', ['--root-owner-group', ...compression, '--build', stage, file], {
    SOURCE_DATE_EPOCH: String(sourceDate),
  })
}
