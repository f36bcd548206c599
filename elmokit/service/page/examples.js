// What each panel opens with, in the language of the model.
const EXAMPLES = {
  en: {
    word: "bank",
    sentences: [
      "They walked along the bank of the river.",
      "The bank lent him the money.",
      "The bank paid the company two million dollars.",
    ],
    gap: "The cat is looking out of the ___ .",
    scored: "The old man caught a fish and a telephone.",
    asked: "She opened a bank account.",
  },
  ko: {
    word: "배",
    sentences: [
      "우리는 항구에서 배를 타고 섬으로 갔다.",
      "어부들은 배를 저어 바다로 나갔다.",
      "아침을 굶었더니 배가 고프다.",
    ],
    gap: "이 영화는 배우들의 ___가 정말 좋다.",
    scored: "노인은 바다에서 물고기와 전화기를 잡았다.",
    asked: "그는 부산에서 배를 타고 떠났다.",
  },
};

export const examplesOf = (model) => EXAMPLES[model.script === "HANGUL" ? "ko" : "en"];

// Where a word is among the words of a sentence; with an ending, where words have theirs.
export function placeOf(word, words) {
  const exact = words.indexOf(word);
  return Math.max(0, exact >= 0 ? exact : words.findIndex((other) => other.startsWith(word)));
}
