/** Certificates made on the spot by openssl, each signed by an authority of the test's own. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { programFile } from './programs.ts'

export interface IssuedCertificate {
  certFile: string
  keyFile: string
  /** PEM. */
  certificate: string
  key: string
}

export interface IssueOptions {
  commonName?: string
  /** As openssl has them: `DNS:localhost,IP:127.0.0.1`. */
  names?: string
  /** From today on; negative: it ended that many days ago. */
  days?: number
}

/** A directory with an authority in it, removed at the end. */
export class TestAuthority {
  readonly directory = mkdtempSync(path.join(os.tmpdir(), 'pipectl-ca-'))
  readonly caFile = path.join(this.directory, 'ca.crt')
  readonly #keyFile = path.join(this.directory, 'ca.key')
  #issued = 0

  constructor(commonName = 'test authority') {
    openssl(
      ...['req', '-x509', ...newKey, '-nodes', '-days', '30', '-subj', `/CN=${commonName}`],
      ...['-keyout', this.#keyFile, '-out', this.caFile],
    )
  }

  get ca(): string {
    return readFileSync(this.caFile, 'utf8')
  }

  issue({
    commonName = 'localhost',
    names = 'DNS:localhost,IP:127.0.0.1',
    days = 20,
  }: IssueOptions = {}): IssuedCertificate {
    const base = path.join(this.directory, `issued-${++this.#issued}`)
    const [certFile, keyFile, request, extensions] = ['.crt', '.key', '.csr', '.ext'].map((end) => base + end)
    openssl(
      ...['req', '-new', ...newKey, '-nodes', '-subj', `/CN=${commonName}`],
      ...['-keyout', keyFile!, '-out', request!],
    )
    writeFileSync(extensions!, `subjectAltName=${names}\n`)
    openssl(
      ...['x509', '-req', '-in', request!, '-CA', this.caFile, '-CAkey', this.#keyFile, '-CAcreateserial'],
      ...['-days', String(days), '-extfile', extensions!, '-out', certFile!],
    )
    return {
      certFile: certFile!,
      keyFile: keyFile!,
      certificate: readFileSync(certFile!, 'utf8'),
      key: readFileSync(keyFile!, 'utf8'),
    }
  }

  close(): void {
    rmSync(this.directory, { recursive: true, force: true })
  }
}

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256']

export function openssl(...args: string[]): string {
  return execFileSync(programFile('openssl'), args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}
