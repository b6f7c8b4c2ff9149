import { readFileSync } from 'node:fs'

/** The allocator settings of the systemd unit: they determine the memory of a daemon. */
export function unitEnvironment(): Record<string, string> {
  const unit = readFileSync(new URL('../../systemd/pipectl.service', import.meta.url), 'utf8')
  const lines = unit.matchAll(/^Environment=(MALLOC_\w+)=(\S+)$/gm)
  return Object.fromEntries([...lines].map(([, name, value]) => [name, value]))
}
