/** Makes the Debian package of this checkout, as `npm run package:deb` does after its build. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'

const project = new URL('../../', import.meta.url).pathname

/** The file's path. Hardly compressed, which changes no file in it. */
export function buildDeb(revision: string, directory: string): string {
  const script = path.join(project, 'vendor/debian/make-deb.mjs')
  const options = ['--revision', revision, '--compression-level', '0', '--directory', directory]
  execFileSync(process.execPath, [script, ...options], { stdio: 'pipe' })
  const { version } = JSON.parse(readFileSync(path.join(project, 'package.json'), 'utf8'))
  const architecture = execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim()
  return path.join(directory, `pipectl_${version.replace('-', '~')}-${revision}_${architecture}.deb`)
}
