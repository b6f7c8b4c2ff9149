/** The servers of the compatibility tests: each of a certain version, from the packages of a release of Debian. */
import path from 'node:path'
import { debianProgram, debianRootOf, type Release } from '../support/debian-programs.ts'
import type { MysqlBuild } from '../support/mariadb.ts'

export function mariadbOf(release: Release): MysqlBuild {
  const root = debianRootOf(release)
  const packages = ['mariadb-server-core', 'mariadb-client-core']
  const args = [`--basedir=${root}/usr`, `--plugin-dir=${root}/usr/lib/mysql/plugin`]
  return {
    server: debianProgram(release, { packages, file: 'usr/sbin/mariadbd' }),
    installer: debianProgram(release, {
      packages,
      file: 'usr/bin/mariadb-install-db',
      starts: ['usr/bin/my_print_defaults', 'usr/bin/resolveip'],
    }),
    // The installer passes --basedir on to the server.
    args,
  }
}

export function mysqlOf(release: Release): MysqlBuild {
  const root = debianRootOf(release)
  return {
    server: debianProgram(release, { packages: ['mysql-server-core'], file: 'usr/sbin/mysqld' }),
    installer: null,
    args: [
      `--basedir=${root}/usr`,
      `--plugin-dir=${root}/usr/lib/mysql/plugin`,
      `--lc-messages-dir=${root}/usr/share/mysql`,
    ],
  }
}

/** The folder of its programs. */
export function postgresOf(release: Release, version: number, extensions: readonly string[] = []): string {
  const folder = `usr/lib/postgresql/${version}/bin`
  return path.dirname(
    debianProgram(release, {
      packages: [`postgresql-${version}`, ...extensions.map((name) => `postgresql-${version}-${name}`)],
      file: `${folder}/postgres`,
      starts: [`${folder}/initdb`],
    }),
  )
}
