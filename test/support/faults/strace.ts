/**
 * The calls that strace sees of a program below a directory, by the fault library's kinds: the check that the library
 * misses nothing.
 */
import { readFileSync } from 'node:fs'
import { programFile } from '../programs.ts'
import type { Kind } from './library.ts'

const kindOf: Record<string, Kind> = {
  ...{ write: 'write', pwrite64: 'write', writev: 'write', pwritev: 'write', pwritev2: 'write' },
  ...{ fsync: 'sync', fdatasync: 'datasync', truncate: 'truncate', ftruncate: 'truncate' },
  ...{ rename: 'rename', renameat: 'rename', renameat2: 'rename', link: 'link', linkat: 'link' },
  ...{ read: 'read', pread64: 'read', readv: 'read', preadv: 'read', preadv2: 'read' },
  ...{ unlink: 'unlink', unlinkat: 'unlink', mkdir: 'mkdir', mkdirat: 'mkdir', rmdir: 'rmdir' },
}
/** Ways to change a file that the library does not count: there must be none. */
const others = [
  'fallocate',
  'copy_file_range',
  'sendfile',
  'sync_file_range',
  'syncfs',
  'symlink',
  'symlinkat',
]

/** The command line in front of a program. Descriptors are shown with their paths. */
export function underStrace(output: string, env: Record<string, string>): string[] {
  const calls = ['open', 'openat', 'creat', ...Object.keys(kindOf), ...others]
  const environment = Object.entries(env).flatMap(([name, value]) => ['-E', `${name}=${value}`])
  return [
    programFile('strace'),
    '-f',
    '-q',
    '-y',
    '-s',
    '0',
    '-o',
    output,
    '-e',
    `trace=${calls}`,
    ...environment,
  ]
}

/** Calls below `root` by kind; a call of `others` is counted under its own name. */
export function seenByStrace(output: string, root: string): Map<string, number> {
  const seen = new Map<string, number>()
  // A call during which another thread's is shown takes two lines; the first has the arguments.
  for (const line of readFileSync(output, 'utf8').split('\n')) {
    const [, call, rest] = /^\d+ +(\w+)\((.*)/.exec(line) ?? []
    if (call === undefined || rest === undefined) continue
    // An absolute path in the arguments decides; without one the path of the descriptor, the working directory's too.
    const named = rest.match(/"\/[^"]*"/g) ?? rest.match(/<\/[^>]*>/g) ?? []
    if (!named.some((name) => name.startsWith(root, 1) && /^[/>"]/.test(name.slice(root.length + 1))))
      continue
    if (/^(open|openat|creat)$/.test(call)) {
      if (/O_CREAT|O_TRUNC/.test(rest)) count(seen, 'create')
    } else if (/AT_REMOVEDIR/.test(rest)) count(seen, 'rmdir')
    else count(seen, kindOf[call] ?? call)
  }
  return seen
}

function count(seen: Map<string, number>, name: string): void {
  seen.set(name, (seen.get(name) ?? 0) + 1)
}
