/**
 * A fresh Debian, as debootstrap makes it (`minbase`), in a directory: where a package is installed with nothing of this
 * machine's around it. It is from this machine's package source. The first of a release takes half a minute and is kept in the
 * temporary directory for the next ones, which are copies.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import { type CliResult, finished } from './cli.ts'

export interface DebianRoot {
  /** Its / on this machine. */
  readonly directory: string
  /** Runs a command in it to its end. */
  run(command: readonly string[], options?: RootOptions): Promise<CliResult>
  start(command: readonly string[], options?: RootOptions): ChildProcess
  /** Every file and folder, with mode and owner, but for what package management itself writes down. */
  list(): string[]
}

export interface RootOptions {
  /** Default: root. */
  user?: string
  env?: Record<string, string>
}

export type DebianRelease = 'bookworm' | 'trixie'

/** Gone at the end of the test. */
export function freshDebian(t: Test, release: DebianRelease): DebianRoot {
  if (process.getuid?.() !== 0)
    throw new Error('this test installs a package in a Debian of its own: run it as root')
  const directory = path.join(mkdtempSync(path.join(os.tmpdir(), 'pipectl-debian-')), 'root')
  t.teardown(() => rmSync(path.dirname(directory), { recursive: true, force: true }))
  execFileSync('cp', ['-a', bootstrapped(release), directory])
  const start = (command: readonly string[], options: RootOptions = {}) => enter(directory, command, options)
  return {
    directory,
    start,
    run: (command, options) => finished(start(command, options)),
    list: () => listed(directory),
  }
}

/** Its own /proc in mounts of its own, which end with the process; `exec` all the way, so that signals reach the command. */
function enter(
  directory: string,
  command: readonly string[],
  { user = 'root', env = {} }: RootOptions,
): ChildProcess {
  const script = 'mount -t proc proc "$1/proc" && shift && exec chroot "$@"'
  const args = ['--mount', 'sh', '-c', script, 'sh', directory, `--userspec=${user}`, directory, ...command]
  return spawn('unshare', args, {
    env: {
      PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
      HOME: '/nonexistent',
      DEBIAN_FRONTEND: 'noninteractive',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** The folder that all copies are made of. Test files may run side by side: the first that has one gives it its name. */
export function bootstrapped(release: DebianRelease): string {
  const kept = path.join(os.tmpdir(), `pipectl-debootstrap-${release}`)
  if (existsSync(kept)) return kept
  const making = mkdtempSync(path.join(os.tmpdir(), 'pipectl-debootstrap-making-'))
  const root = path.join(making, 'root')
  // On Debian 13 nothing that is essential asks for adduser, which a removed package would leave behind.
  execFileSync(
    'debootstrap',
    ['--variant=minbase', '--include=adduser', `--keyring=${keyring}`, release, root, packageSource()],
    {
      env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` },
      stdio: 'pipe',
    },
  )
  try {
    renameSync(root, kept)
  } catch (error) {
    if (!existsSync(kept)) throw error
  } finally {
    rmSync(making, { recursive: true, force: true })
  }
  return kept
}

const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg'

/** One mirror has all releases. */
function packageSource(): string {
  const filter = ['Origin: Debian', 'Label: Debian', 'Component: main', 'Created-By: Packages']
  const targets = execFileSync('apt-get', ['indextargets', '--format', '$(REPO_URI)', ...filter], {
    encoding: 'utf8',
  })
  const [source] = targets.split('\n')
  if (!source)
    throw new Error('apt knows no packages of Debian: run the test on Debian, after apt-get update')
  return source
}

/** dpkg's, apt's and adduser's own records, and what others derive from all packages. */
const records =
  /^(var\/(lib\/(dpkg|apt|systemd\/deb-systemd-helper[^/]*)|cache|log)|etc\/(passwd|group|shadow|gshadow)-|etc\/ld\.so\.cache|proc|run|tmp)(\/|$)/

function listed(directory: string): string[] {
  const printed = execFileSync('find', ['.', '-printf', '%P %m %U:%G %l\n'], {
    cwd: directory,
    encoding: 'utf8',
    maxBuffer: 1 << 27,
  })
  return printed
    .split('\n')
    .filter((line) => line !== '' && !records.test(line.split(' ')[0] ?? ''))
    .sort()
}

/** Names in a folder of the root, sorted; none where it is not there. */
export function namesIn(root: DebianRoot, folder: string): string[] {
  const at = path.join(root.directory, folder)
  return existsSync(at) ? readdirSync(at).sort() : []
}
