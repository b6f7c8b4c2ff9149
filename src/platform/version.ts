/** The program's version, read from package.json. */
import { readFileSync } from 'node:fs'

export function version(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  if (manifest !== null && typeof manifest === 'object' && 'version' in manifest)
    return String(manifest.version)
  throw new Error('package.json has no version')
}
