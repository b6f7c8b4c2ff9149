/** The frame of the pages before sign-in. */
import { type ReactNode, useEffect } from 'react'
import icon from '../favicon.svg'
import styles from './sign-in.module.css'

export function FrontPage({ title, children }: { title: string; children: ReactNode }) {
  useEffect(() => {
    document.title = title === 'pipectl' ? title : `${title} · pipectl`
  }, [title])
  return (
    <main className={styles.front}>
      <div className={styles.card}>
        <div className={styles.brand}>
          <img src={icon} alt="" />
          <h1>{title === 'pipectl' ? title : `${title} to pipectl`}</h1>
        </div>
        {children}
      </div>
    </main>
  )
}
