/**
 * The certificate that a listener serves, followed as its files change: certbot and others swap symbolic links, some write the
 * files themselves, and a key may come a moment after its certificate.
 *
 *   served ──files have changed──▶ read ──usable──▶ served (the new one, to connections from now on)
 *                                   └──not usable, at two looks in a row──▶ rejected: the old one is served
 *
 * The files are looked at every few seconds: notifications of the system say nothing of a link that is swapped further up
 * its path, nor of network file systems.
 */
import { statSync } from 'node:fs'
import { ConfigError } from '../../platform/config-error.ts'
import type { Logger } from '../../platform/log.ts'
import { type CertificateFiles, readCertificate, type ServedCertificate } from './certificate-files.ts'

export interface ListenerCertificateOptions {
  /** The listener's setting: `listen`, `data_listen`. */
  listener: string
  files: CertificateFiles
  log: Logger
  /** The wall clock in ms. */
  now?: () => number
}

const lookEveryMs = 5_000
/** Clients that renew by themselves do so a third of its life before the end: 30 days of 90, and of six days two. */
const soonMs = 2 * 24 * 3_600_000

export class ListenerCertificate {
  readonly listener: string
  readonly #log: Logger
  readonly #now: () => number
  readonly #timer: NodeJS.Timeout
  #files: CertificateFiles
  #current: ServedCertificate
  #seen: string
  /** The signature of the files when they first could not be used. */
  #suspect: string | null = null
  #rejection: string | null = null
  #onChange: (certificate: ServedCertificate) => void = () => {}

  /** Throws ConfigError. */
  constructor({ listener, files, log, now = Date.now }: ListenerCertificateOptions) {
    this.listener = listener
    this.#files = files
    this.#log = log
    this.#now = now
    this.#seen = signatureOf(files)
    this.#current = readCertificate(files)
    this.#warnOfExpiry()
    this.#timer = setInterval(() => this.#look(), lookEveryMs)
    this.#timer.unref()
  }

  get current(): ServedCertificate {
    return this.#current
  }

  /** Why the files cannot be used as they are now; null: they are what is served. */
  get rejection(): string | null {
    return this.#rejection
  }

  /** It should have been renewed by now. */
  get expiresSoon(): boolean {
    return this.#current.expiresMs <= this.#now() + soonMs
  }

  get isExpired(): boolean {
    return this.#current.expiresMs <= this.#now()
  }

  /** At most one listener. */
  onChange(listener: (certificate: ServedCertificate) => void): void {
    this.#onChange = listener
  }

  /** SIGHUP: at once, whether or not the files look different. False: they cannot be used, and the log says why. */
  reload(files: CertificateFiles = this.#files): boolean {
    this.#files = files
    this.#seen = signatureOf(files)
    this.#suspect = null
    return this.#take()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    const signature = signatureOf(this.#files)
    if (signature === this.#seen) return
    if (!this.#isUsable() && this.#suspect !== signature) {
      // The other file of the pair may be about to follow.
      this.#suspect = signature
      return
    }
    this.#suspect = null
    this.#seen = signature
    this.#take()
  }

  #isUsable(): boolean {
    try {
      readCertificate(this.#files)
      return true
    } catch {
      return false
    }
  }

  #take(): boolean {
    const { listener } = this
    try {
      const next = readCertificate(this.#files)
      if (next.expiresMs <= this.#now() && !this.isExpired)
        throw new ConfigError(
          `${this.#files.certSetting}: ${this.#files.certFile} expired on ${day(next.expiresMs)}`,
        )
      const isNew =
        this.#rejection !== null ||
        next.fingerprint !== this.#current.fingerprint ||
        !next.key.equals(this.#current.key)
      this.#rejection = null
      this.#current = next
      this.#onChange(next)
      if (isNew) this.#log.info({ listener, expires: day(next.expiresMs) }, 'tls.certificate_loaded')
      this.#warnOfExpiry()
      return true
    } catch (error) {
      this.#rejection = error instanceof ConfigError ? error.message : String(error)
      const serving_until = day(this.#current.expiresMs)
      this.#log.error({ listener, reason: this.#rejection, serving_until }, 'tls.certificate_rejected')
      return false
    }
  }

  /** Warns and continues: the operator may have no other certificate, and delivery does not wait for one. */
  #warnOfExpiry(): void {
    if (!this.isExpired) return
    const { certSetting, certFile } = this.#files
    const reason = `${certSetting}: ${certFile} expired on ${day(this.#current.expiresMs)}; clients will reject it: renew it`
    this.#log.error({ listener: this.listener, reason }, 'tls.certificate_expired')
  }
}

/** The signature of the files that the names lead to now. */
function signatureOf({ certFile, keyFile }: CertificateFiles): string {
  return [certFile, keyFile]
    .map((file) => {
      const stats = statSync(file, { throwIfNoEntry: false, bigint: true })
      return stats === undefined
        ? 'none'
        : [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(' ')
    })
    .join('\n')
}

function day(ms: number): string {
  return new Date(ms).toISOString()
}
