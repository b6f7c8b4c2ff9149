/**
 * The text of THIRD-PARTY-LICENSES: every npm package of which something is in a package of ours, and the licenses under
 * which they are passed on. Packages with the same text stand above it together.
 *
 * Throws when one has a license that is not on the list, or no text of it: such a package must not go out.
 */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '..')
/** They ask for no more than their text, a notice or nothing. */
const permissive = [
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'CC0-1.0',
  'ISC',
  'MIT',
  'Unlicense',
]
const rule = `\n\n${'-'.repeat(80)}\n\n`

/** `files` are names below `from`, of which those in node_modules count. */
export function thirdPartyLicenses(files, from = root) {
  const packagesOf = new Map()
  for (const folder of packageFolders(files)) {
    const place = path.join(from, folder)
    const manifest = JSON.parse(readFileSync(path.join(place, 'package.json'), 'utf8'))
    const license = licenseOf(manifest)
    const text = textsOf(place, manifest.name, license).join('\n\n').trim()
    if (!packagesOf.has(text)) packagesOf.set(text, new Set())
    packagesOf.get(text).add(`${manifest.name} ${manifest.version} (${license})`)
  }
  const parts = [...packagesOf].map(([text, names]) => `${[...names].join('\n')}\n\n${text}`)
  const head =
    'pipectl contains parts of the packages below, each under its license. Its own license is in LICENSE.'
  return `${[head, ...parts].join(rule)}\n`
}

/** The packages that such a text names: `{ name, version, license }`. */
export function packagesIn(text) {
  const lines = text.matchAll(/^(\S+) (\d\S*) \(([\w.-]+)\)$/gm)
  return [...lines].map(([, name, version, license]) => ({ name, version, license }))
}

function packageFolders(files) {
  const folders = files.map((file) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0])
  return [...new Set(folders)].filter((folder) => folder !== undefined).sort()
}

/** `MIT`, `(MIT OR CC0-1.0)`, or the list of the packages of old. */
function licenseOf({ name, license, licenses = [] }) {
  const said = license?.type ?? license ?? licenses.map(({ type }) => type).join(' OR ')
  const choices = said.replaceAll(/[()]/g, '').split(' OR ')
  const chosen = choices.find((one) => permissive.includes(one))
  if (chosen !== undefined) return chosen
  throw new Error(`${name} has the license "${said}", which is none of ${permissive.join(', ')}`)
}

/** From its own file, the end of its README.md, or vendor/licenses where the package has neither. */
function textsOf(folder, name, license) {
  const own = readdirSync(folder)
    .filter((file) => /^(licen[cs]e|copying|notice)/i.test(file))
    .sort()
    .map((file) => readFileSync(path.join(folder, file), 'utf8').trim())
  if (own.length > 0) return own
  // It is one text for all; packages of AWS leave it out now and then.
  if (license === 'Apache-2.0') return [readFileSync(path.join(root, 'LICENSE'), 'utf8').trim()]
  const text = readmeSection(folder) ?? vendored(name)
  if (text !== undefined) return [text]
  throw new Error(`${name} (${license}) comes without the text of its license: put it in vendor/licenses`)
}

function readmeSection(folder) {
  const readme = readIfThere(path.join(folder, 'README.md')) ?? ''
  const section = /^#+ *licen[cs]e\s*?$([\s\S]*)/im.exec(readme)?.[1]
  return section?.includes('Permission is hereby granted') ? section.trim() : undefined
}

function vendored(name) {
  return readIfThere(path.join(import.meta.dirname, 'licenses', `${name.replaceAll('/', '-')}.txt`))
}

function readIfThere(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (error.code === 'ENOENT') return undefined
    throw error
  }
}
