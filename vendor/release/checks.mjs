/**
 * The conditions of a release, checked before anything is made: the commit says which version it is, the changelog says
 * what is in it, and no file differs from the commit. The artifacts can be made again from the tag by anyone.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { sectionsOf } from './changelog.mjs'

/** Returns one line for each reason why the commit in `root` cannot be released as it is. */
export function problemsOf(root) {
  const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  const changelog = readFileSync(path.join(root, 'CHANGELOG.md'), 'utf8')
  return [
    ...treeProblems(root),
    ...changelogProblems(sectionsOf(changelog), version),
    ...sdkProblems(root, version),
    ...tagProblems(root, version),
  ]
}

function treeProblems(root) {
  const changed = git(root, 'status', '--porcelain').split('\n').filter(Boolean)
  if (changed.length === 0) return []
  return [`the tree differs from the commit: ${changed.slice(0, 5).join(', ')}; commit or remove these files`]
}

function changelogProblems(sections, version) {
  const section = sections.find((one) => one.version === version)
  if (section === undefined || section.date === null)
    return [`CHANGELOG.md has no section "## [${version}] - DATE": rename "Unreleased" to it`]
  const unreleased = sections.find((one) => one.version === 'Unreleased')
  if (unreleased !== undefined && unreleased.text !== '')
    return [
      `CHANGELOG.md has unreleased changes above ${version}: set a new version, or move them below its heading`,
    ]
  if (section.text === '') return [`the section ${version} of CHANGELOG.md is empty`]
  return []
}

/** A user who reads the notes of a release finds its SDKs under the same version. */
function sdkProblems(root, version) {
  const versions = {
    'sdk/js/package.json': /"version": "([^"]+)"/,
    'sdk/python/pipectl/_version.py': /__version__ = "([^"]+)"/,
  }
  return Object.entries(versions).flatMap(([name, pattern]) => {
    const file = path.join(root, name)
    const found = existsSync(file) ? pattern.exec(readFileSync(file, 'utf8'))?.[1] : version
    return found === version ? [] : [`${name} has version ${found}, but package.json has ${version}`]
  })
}

/** The tag can be made after the artifacts were tried, but an existing one has to be right. */
function tagProblems(root, version) {
  const versions = git(root, 'tag', '--points-at', 'HEAD')
    .split('\n')
    .filter((tag) => /^v\d/.test(tag))
  const other = versions.filter((tag) => tag !== `v${version}`)
  if (other.length > 0)
    return [`the commit is tagged ${other.join(', ')}, but package.json has version ${version}`]
  const tagged = git(root, 'tag', '--list', `v${version}`).trim()
  if (tagged !== '' && versions.length === 0)
    return [`the tag ${tagged} is on another commit: a version is released once; set a new one`]
  return []
}

/** Seconds since 1970: the time that every artifact carries. */
export function commitTime(root) {
  return Number(git(root, 'log', '-1', '--format=%ct').trim())
}

export function commitId(root) {
  return git(root, 'rev-parse', 'HEAD').trim()
}

function git(root, ...args) {
  return execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26 })
}
