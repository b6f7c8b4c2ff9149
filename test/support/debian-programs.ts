/**
 * Programs of a certain release of Debian, whichever release the machine has: for the tests of several versions of a product.
 *
 * Their packages are unpacked without root, with all libraries and the C library, below the temporary directory, where PostgreSQL's
 * user can read them too. They stay there for the next run. The kernel starts a program with the loader that its file names by an
 * absolute path, which is the machine's. patchelf writes the unpacked loader and the folder of the unpacked libraries into the file.
 * No variable of the environment is needed, which programs of the machine would inherit.
 */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { triplet } from './programs.ts'

export type Release = 'bookworm' | 'trixie' | 'sid'

export interface DebianProgram {
  packages: readonly string[]
  /** Below the root of the unpacked packages. */
  file: string
  /** Programs that this one starts. */
  starts?: readonly string[]
}

const loader = process.arch === 'arm64' ? 'ld-linux-aarch64.so.1' : 'ld-linux-x86-64.so.2'

/** Returns the folder that corresponds to / of the release. */
export function debianRootOf(release: Release): string {
  return path.join(folderOf(release), 'root')
}

function folderOf(release: Release): string {
  return path.join(os.tmpdir(), `pipectl-debian-programs-${process.getuid?.()}-${release}`)
}

/** Returns the program's absolute path. Blocks while packages are fetched. */
export function debianProgram(release: Release, { packages, file, starts = [] }: DebianProgram): string {
  const folder = folderOf(release)
  const script = fileURLToPath(new URL('./unpack-packages.sh', import.meta.url))
  for (const one of ['patchelf', ...packages]) {
    if (existsSync(path.join(folder, 'unpacked', one))) continue
    execFileSync('sh', [script, folder, one, '--suite', release], { stdio: ['ignore', 'ignore', 'inherit'] })
  }
  for (const one of [file, ...starts]) patchProgram(folder, one)
  return path.join(debianRootOf(release), file)
}

/**
 * Returns the command that starts a program with the release's /usr/share in addition to the machine's own, which only this process
 * sees. It is for programs that read files by an absolute path.
 */
export function withFilesOf(release: Release, command: readonly string[]): string[] {
  const account = process.getuid?.() === 0 ? [] : ['--map-root-user']
  const script =
    'mount -t overlay overlay -o "lowerdir=$1/usr/share:/usr/share" /usr/share && shift && exec "$@"'
  return ['unshare', '--mount', ...account, 'sh', '-c', script, 'sh', debianRootOf(release), ...command]
}

/** Other test files can need the same program at the same moment: flock makes them wait, and the mark is written last. */
function patchProgram(folder: string, file: string): void {
  const mark = path.join(folder, 'unpacked', `${file.replaceAll('/', '-')}.loader`)
  if (existsSync(mark)) return
  const root = path.join(folder, 'root')
  const libraries = path.join(root, 'usr/lib', triplet)
  const script = `mark=$1 loader=$2 libraries=$3 patchelf=$4 file=$5
    change() { "$loader" --library-path "$libraries" "$patchelf" "$@" "$file"; }
    [ ! -e "$mark" ] || exit 0
    # A script has no interpreter in this sense.
    ! change --print-interpreter 2>/dev/null || change --set-interpreter "$loader" --force-rpath --set-rpath "$libraries"
    : >"$mark"`
  // patchelf itself has to be started by the loader of its release.
  const programs = ['usr/bin/patchelf', file].map((one) => path.join(root, one))
  const args = [mark, path.join(libraries, loader), libraries, ...programs]
  execFileSync('flock', [path.join(folder, 'lock'), 'sh', '-euc', script, 'sh', ...args], { stdio: 'pipe' })
}
