import { readFileSync } from 'node:fs'

/** What the systemd unit has the C library's allocator do: by these the memory of a daemon is measured. */
export function unitEnvironment(): Record<string, string> {
  const unit = readFileSync(new URL('../../systemd/pipectl.service', import.meta.url), 'utf8')
  const lines = unit.matchAll(/^Environment=(MALLOC_\w+)=(\S+)$/gm)
  return Object.fromEntries([...lines].map(([, name, value]) => [name, value]))
}
