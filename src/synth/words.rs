//! Made-up words for transcripts: harmless, of no language, some of them not ASCII.

use super::random::Random;

const WORDS: [&str; 48] = [
    "lumo",
    "tavi",
    "sero",
    "palu",
    "mirin",
    "dola",
    "kento",
    "visu",
    "orra",
    "belin",
    "faro",
    "nuvia",
    "talo",
    "remi",
    "sola",
    "quino",
    "zaru",
    "melda",
    "pirro",
    "ilva",
    "donta",
    "arwe",
    "lisko",
    "tumba",
    "velo",
    "nara",
    "osti",
    "kalim",
    "sundo",
    "feria",
    "hulo",
    "brisa",
    "tenno",
    "marlu",
    "pavo",
    "ziri",
    "colma",
    "dessa",
    "élan",
    "müra",
    "añil",
    "søl",
    "çiva",
    "nõmi",
    "žila",
    "ｍｉｏ",
    "あい",
    "…",
];

/// Adds one to four words to `text`, each after a space, as a tokenizer emits them.
pub(super) fn speak(random: &mut Random, text: &mut String) {
    for _ in 0..random.between(1, 4) {
        let nth = random.between(0, WORDS.len() as u64 - 1);
        text.push(' ');
        text.push_str(WORDS[nth as usize]);
    }
}
